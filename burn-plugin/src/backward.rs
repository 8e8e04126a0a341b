//! Backward, told apart from forward.

use burn::tensor::{Gradients, Tensor};
use mlprof_core::profile;

use crate::direction::Inside;
use crate::numerics;

/// `loss.profile_backward()`: backward as an action of its own.
///
/// burn's `TrainStep::step` runs forward and backward in one call that a trainer cannot look
/// into. Write this in the step where `loss.backward()` stood, and the report shows `backward`
/// inside `training_step`; the self time of `training_step` is then forward (and the loss). The ops
/// called in it count as [backward](crate::ops#forward-and-backward), and
/// [`NumericsProfiler`](mlprof_core::NumericsProfiler) looks at the loss.
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
/// *What it measures*: on backends that run at once (flex, ndarray), the work; on those that queue
/// (CUDA, wgpu), the time to queue it. *Cost* without an active profiler: one relaxed load.
pub trait ProfileBackwardExt: sealed::Sealed {
    /// [`Tensor::backward`], measured as `backward` by the active profiler.
    fn profile_backward(&self) -> Gradients;
}

/// Keeps other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<const D: usize> Sealed for super::Tensor<D> {}
}

impl<const D: usize> ProfileBackwardExt for Tensor<D> {
    fn profile_backward(&self) -> Gradients {
        numerics::tell_loss(self);
        // Entered before the action begins and left before it ends: ops are told their direction
        // when an action begins or ends.
        let inside = Inside::backward();
        let action = profile!(crate::actions::BACKWARD);
        let gradients = self.backward();
        drop(inside);
        drop(action);
        gradients
    }
}
