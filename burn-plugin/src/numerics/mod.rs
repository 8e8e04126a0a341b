//! Tensors that a profiler can read: layer outputs, losses, gradients and parameters.

mod batch;
// Every program that trains with burn has Flex, because burn-train enables it.
#[cfg(any(feature = "flex", feature = "train"))]
mod flex;
#[cfg(feature = "autodiff")]
mod parameters;
mod reduction;
mod tensor;
mod values;

use std::any::Any;
#[cfg(feature = "autodiff")]
use std::cell::Cell;

#[cfg(feature = "autodiff")]
use burn::tensor::Tensor;
use mlprof_core::hook::{self, ObservedTensor, TensorNumbers, TensorRole};
use mlprof_core::{Action, Interest};

pub use batch::record_batch;
#[cfg(feature = "autodiff")]
pub(crate) use parameters::StepTold;
#[cfg(feature = "autodiff")]
use tensor::Numbers;

/// The smallest positive normal number of `f32`. It also applies to `bf16`, which has the same
/// exponent range.
const LEAST_NORMAL_F32: f64 = f32::MIN_POSITIVE as f64;

/// Returns `true` if a profiler observes tensors. *Cost*: one relaxed load.
#[inline]
pub(crate) fn is_wanted() -> bool {
    hook::interest().contains(Interest::NUMERICS)
}

fn tell(role: TensorRole, name: &str, tensor: &dyn TensorNumbers, input: Option<&dyn Any>) {
    let tell = |input: Option<&dyn TensorNumbers>| {
        hook::tensor(&ObservedTensor { role, name, tensor, input });
    };
    let is_told =
        input.is_some_and(|input| values::with_tensor(input, &mut |input| tell(Some(input))));
    if !is_told {
        tell(None);
    }
}

/// Reports a layer's output of any type, and its input if it is known.
pub(crate) fn tell_output(layer: Action, input: Option<&dyn Any>, output: &dyn Any) {
    let is_told = values::with_tensor(output, &mut |output| {
        tell(TensorRole::Output, layer.name(), output, input);
    });
    if !is_told {
        hook::note_of_numbers(&format!(
            "{} returns no floating-point tensor of a known type, so its output is not observed",
            layer.name()
        ));
    }
}

#[cfg(feature = "autodiff")]
thread_local! {
    /// Set when this thread has reported a loss since the last check.
    static HAS_TOLD_LOSS: Cell<bool> = const { Cell::new(false) };
}

/// Reports the loss on which `backward` is called.
#[cfg(feature = "autodiff")]
#[inline]
pub(crate) fn tell_loss<const D: usize>(loss: &Tensor<D>) {
    if is_wanted() {
        HAS_TOLD_LOSS.set(true);
        tell(TensorRole::Loss, "loss", &Numbers::of(loss), None);
    }
}

/// Reports the loss in the output of a training step. Does nothing if the output is not one of
/// burn's own types, or if the step has already reported its loss.
#[cfg(feature = "train")]
pub(crate) fn tell_loss_of(output: &dyn Any) {
    let has_told = HAS_TOLD_LOSS.take();
    if is_wanted()
        && !has_told
        && let Some(loss) = values::loss_in(output)
    {
        tell(TensorRole::Loss, "loss", &Numbers::of(loss), None);
    }
}

#[cfg(all(test, feature = "train"))]
mod tests;
