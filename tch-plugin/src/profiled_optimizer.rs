//! Optimizer and backward profiling in hand-written loops.

use std::ops::{Deref, DerefMut};

use mlprof_core::hook::{interest, observe_loss};
use mlprof_core::{Interest, profile};
use tch::nn::Optimizer;
use tch::{Device, TchError, Tensor};

use crate::actions::{
    BACKWARD, CONFIGURE_GRADIENT_CLIPPING, OPTIMIZER_UPDATE, OPTIMIZER_ZERO_GRAD,
};
use crate::device::synchronize;
use crate::numerics::{self, Tch};
use crate::ops;

/// A [`tch::nn::Optimizer`] that is measured by the [active](mlprof_core::activate) profiler. Its
/// methods have the same names and behaviour as tch's. Other methods are reached by dereferencing
/// to the wrapped optimizer.
///
/// ```
/// use std::sync::Arc;
/// use tch::nn::{self, Module, OptimizerConfig};
/// use tch::{Device, Kind, Tensor};
/// use mlprof_tch::prelude::*;
///
/// let store = nn::VarStore::new(Device::Cpu);
/// let layer = nn::linear(store.root(), 2, 1, Default::default());
/// let mut optimizer = nn::Sgd::default().build(&store, 0.1)?.profile_optimizer();
///
/// let profiler = Arc::new(SimpleProfiler::new());
/// let active = activate(profiler.clone());
/// for _ in 0..3 {
///     let input = Tensor::rand([8, 2], (Kind::Float, Device::Cpu));
///     let loss = layer.forward(&input).square().mean(Kind::Float);
///     optimizer.backward_step(&loss);
/// }
/// drop(active);
/// profiler.describe(); // 3 × optimizer_zero_grad, backward, Optimizer.step
/// # let summary = profiler.snapshot();
/// # let calls = |name| summary.actions.iter().find(|row| row.action == name).map(|row| row.calls);
/// # for name in ["optimizer_zero_grad", "backward", "Optimizer.step"] {
/// #     assert_eq!(calls(name), Some(3));
/// # }
/// # Ok::<(), tch::TchError>(())
/// ```
///
/// *Measured time*: execution time on a CPU. On an accelerator, it is the time to queue the work
/// unless [`synchronize(true)`](Self::synchronize) is set. *Cost* without an active profiler: one
/// relaxed load per row.
///
/// Like tch's own methods, these methods panic if torch reports an error. [`TchOptimizer`] returns
/// errors instead.
///
/// [`TchOptimizer`]: crate::TchOptimizer
#[derive(Debug)]
pub struct ProfiledOptimizer {
    optimizer: Optimizer,
    synchronizes: bool,
}

impl ProfiledOptimizer {
    /// Makes backward and step wait for the CUDA device, so that their rows show execution time;
    /// disabled by default. See [`synchronize`] for the cost.
    #[must_use]
    pub fn synchronize(mut self, waits: bool) -> Self {
        self.synchronizes = waits;
        self
    }

    /// Returns the wrapped optimizer, which is then no longer measured.
    pub fn into_inner(self) -> Optimizer {
        self.optimizer
    }

    /// Clears all gradients, measured as `optimizer_zero_grad`.
    pub fn zero_grad(&mut self) {
        let _scope = profile!(OPTIMIZER_ZERO_GRAD);
        self.optimizer.zero_grad();
    }

    /// Updates the variables, measured as `Optimizer.step`.
    pub fn step(&mut self) {
        let _scope = profile!(OPTIMIZER_UPDATE);
        let is_wanted = interest().contains(Interest::MEMORY);
        let variables = is_wanted.then(|| self.optimizer.trainable_variables());
        let tracked = ops::TrackedStep::begin(variables.iter().flatten());
        let step = numerics::begin_step(|| {
            let variables = self.optimizer.trainable_variables().into_iter().enumerate();
            variables.map(|(place, variable)| (numerics::numbered(place), variable)).collect()
        });
        self.optimizer.step();
        if let Some(step) = step {
            step.end();
        }
        drop(tracked);
        if self.synchronizes
            && let Some(variable) = self.optimizer.trainable_variables().first()
        {
            synchronize(variable.device());
        }
    }

    /// Clips every element of every gradient, measured as `configure_gradient_clipping`.
    pub fn clip_grad_value(&self, max: f64) {
        let _scope = profile!(CONFIGURE_GRADIENT_CLIPPING);
        self.optimizer.clip_grad_value(max);
    }

    /// Scales all gradients together to a norm of at most `max`, measured as
    /// `configure_gradient_clipping`.
    pub fn clip_grad_norm(&self, max: f64) {
        let _scope = profile!(CONFIGURE_GRADIENT_CLIPPING);
        self.optimizer.clip_grad_norm(max);
    }

    /// Clears the gradients, runs backward and updates the variables, measured as three rows.
    pub fn backward_step(&mut self, loss: &Tensor) {
        self.zero_grad();
        self.backward(loss);
        self.step();
    }

    /// Performs [`backward_step`](Self::backward_step) and clips every element of every gradient
    /// before the update.
    pub fn backward_step_clip(&mut self, loss: &Tensor, max: f64) {
        self.zero_grad();
        self.backward(loss);
        self.clip_grad_value(max);
        self.step();
    }

    /// Performs [`backward_step`](Self::backward_step) and scales the gradients to a norm of at
    /// most `max` before the update.
    pub fn backward_step_clip_norm(&mut self, loss: &Tensor, max: f64) {
        self.zero_grad();
        self.backward(loss);
        self.clip_grad_norm(max);
        self.step();
    }

    fn backward(&self, loss: &Tensor) {
        let _scope = profile!(BACKWARD);
        observe_loss::<Tch>(loss);
        loss.backward();
        self.wait_for(loss.device());
    }

    fn wait_for(&self, device: Device) {
        if self.synchronizes {
            synchronize(device);
        }
    }
}

impl Deref for ProfiledOptimizer {
    type Target = Optimizer;

    fn deref(&self) -> &Optimizer {
        &self.optimizer
    }
}

impl DerefMut for ProfiledOptimizer {
    fn deref_mut(&mut self) -> &mut Optimizer {
        &mut self.optimizer
    }
}

/// Prevents other crates from implementing the extension traits.
mod sealed {
    pub trait Optimizer {}
    impl Optimizer for tch::nn::Optimizer {}
    pub trait Backward {}
    impl Backward for tch::Tensor {}
}

/// Adds `optimizer.profile_optimizer()` to [`tch::nn::Optimizer`].
pub trait ProfileOptimizerExt: sealed::Optimizer {
    /// Wraps the optimizer, so that the active profiler measures it. See [`ProfiledOptimizer`].
    fn profile_optimizer(self) -> ProfiledOptimizer;
}

impl ProfileOptimizerExt for Optimizer {
    fn profile_optimizer(self) -> ProfiledOptimizer {
        ops::install();
        ProfiledOptimizer { optimizer: self, synchronizes: false }
    }
}

/// Measures the backward pass as a separate action: `loss.profile_backward()`.
///
/// *Measured time*: execution time on a CPU. On an accelerator, it is the time to queue the work;
/// [`synchronize`] waits for the work. *Cost* without an active profiler: one relaxed load.
pub trait ProfileBackwardExt: sealed::Backward {
    /// Calls [`Tensor::backward`] and measures it as `backward` with the active profiler.
    ///
    /// # Panics
    ///
    /// Panics like [`Tensor::backward`] if torch reports an error.
    fn profile_backward(&self);

    /// Runs [`profile_backward`](Self::profile_backward) and returns errors instead of panicking.
    ///
    /// # Errors
    ///
    /// Returns torch's error, for example for a loss with more than one element.
    fn f_profile_backward(&self) -> Result<(), TchError>;
}

impl ProfileBackwardExt for Tensor {
    fn profile_backward(&self) {
        let _scope = profile!(BACKWARD);
        observe_loss::<Tch>(self);
        self.backward();
    }

    fn f_profile_backward(&self) -> Result<(), TchError> {
        let _scope = profile!(BACKWARD);
        observe_loss::<Tch>(self);
        self.f_backward()
    }
}
