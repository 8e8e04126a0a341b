//! Backward, told apart from forward.

use burn::tensor::{Gradients, Tensor};
use mlprof_core::profile;

use crate::direction::Inside;
use crate::numerics;

/// `loss.backward_profiled()`: backward as an action of its own.
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
