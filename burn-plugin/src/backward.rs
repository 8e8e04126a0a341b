//! Backward, told apart from forward.

use std::cell::Cell;

use burn::tensor::{Gradients, Tensor};
use profiler_core::hook::Direction;
use profiler_core::profile;

/// `loss.backward_profiled()`: backward as an action of its own.
///
/// burn's `TrainStep::step` runs forward and backward in one call that a trainer cannot look
/// into. Write this in the step where `loss.backward()` stood, and the report shows `backward`
/// inside `training_step`; the self time of `training_step` is then forward (and the loss). The ops
/// called in it count as [backward](crate::ops#forward-and-backward).
///
/// ```
/// use burn::prelude::*;
/// use burn_plugin::prelude::*;
///
/// let device = Device::flex().autodiff();
/// let weight = Tensor::<1>::from_floats([3.0], &device).require_grad();
/// let gradients = weight.clone().powi_scalar(2).backward_profiled();
/// let gradient = weight.grad(&gradients).expect("a leaf has a gradient");
/// assert_eq!(gradient.into_scalar::<f32>(), 6.0);
/// ```
///
/// *What it measures*: on backends that run at once (flex, ndarray), the work; on those that queue
/// (CUDA, wgpu), the time to queue it. *Cost* without an active profiler: one relaxed load.
pub trait ProfiledBackward {
    /// [`Tensor::backward`], measured as `backward` by the active profiler.
    fn backward_profiled(&self) -> Gradients;
}

impl<const D: usize> ProfiledBackward for Tensor<D> {
    fn backward_profiled(&self) -> Gradients {
        // Entered before the action begins and left before it ends: ops are told their direction
        // when an action begins or ends.
        let inside = Inside::enter();
        let action = profile!(crate::actions::BACKWARD);
        let gradients = self.backward();
        drop(inside);
        drop(action);
        gradients
    }
}

thread_local! {
    static INSIDE: Cell<u32> = const { Cell::new(0) };
}

/// Whether the calling thread is inside [`ProfiledBackward::backward_profiled`].
#[cfg_attr(not(feature = "cubecl"), allow(dead_code))]
pub(crate) fn direction() -> Direction {
    if INSIDE.get() > 0 { Direction::Backward } else { Direction::Forward }
}

struct Inside;

impl Inside {
    fn enter() -> Self {
        INSIDE.set(INSIDE.get() + 1);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.set(INSIDE.get() - 1);
    }
}
