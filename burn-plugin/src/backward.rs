//! Measures the backward pass separately from the forward pass.

use burn::tensor::{Gradients, Tensor};
use mlprof_core::profile;

use crate::direction::BackwardGuard;
use crate::numerics;

/// Measures the backward pass as a separate action: `loss.profile_backward()`.
///
/// burn's `TrainStep::step` runs forward and backward in one call, which a trainer cannot split.
/// Replace `loss.backward()` in that function with `loss.profile_backward()`:
///
/// - The report shows `backward` inside `training_step`. The self time of `training_step` is then
///   the forward pass and the loss.
/// - Ops called inside it count as [backward](crate::ops#forward-and-backward).
/// - [`NumericsProfiler`](mlprof_core::NumericsProfiler) observes the loss.
///
/// ```
/// use burn::prelude::*;
/// use mlprof_burn::prelude::*;
///
/// let device = Device::flex().autodiff();
/// let weight = Tensor::<1>::from_floats([3.0], &device).require_grad();
/// let gradients = weight.clone().powi_scalar(2).profile_backward();
/// let gradient = weight.grad(&gradients).expect("a leaf has a gradient");
/// assert_eq!(gradient.into_scalar::<f32>(), 6.0);
/// ```
///
/// *Measured time*: on backends that execute ops immediately (flex, ndarray), the execution time.
/// On backends that queue ops (CUDA, wgpu), the time to queue them. *Cost* without an active
/// profiler: one relaxed load.
pub trait ProfileBackwardExt: sealed::Sealed {
    /// Calls [`Tensor::backward`] and measures it as `backward` with the active profiler.
    fn profile_backward(&self) -> Gradients;
}

/// Prevents other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<const D: usize> Sealed for super::Tensor<D> {}
}

impl<const D: usize> ProfileBackwardExt for Tensor<D> {
    fn profile_backward(&self) -> Gradients {
        numerics::tell_loss(self);
        // The direction is set before the action begins and reset before it ends. Ops take their
        // direction from the messages that are sent at these two times.
        let inside = BackwardGuard::backward();
        let action = profile!(crate::actions::BACKWARD);
        let gradients = self.backward();
        drop(inside);
        drop(action);
        gradients
    }
}
