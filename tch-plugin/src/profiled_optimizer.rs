//! For loops of one's own: the optimizer and backward, measured by the active profiler.

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

/// A [`tch::nn::Optimizer`] whose work is measured by the [active](mlprof_core::activate)
/// profiler. Methods have their usual names and do what they did; whatever is not here is that of
/// the optimizer inside.
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
/// *What it measures*: on a CPU the work; on an accelerator the time to queue it, unless
/// [`synchronize(true)`](Self::synchronize) is asked for. *Cost* without an active profiler: one
/// relaxed load per row.
///
/// Like tch's own, these methods panic where torch reports an error; [`TchOptimizer`] does not.
///
/// [`TchOptimizer`]: crate::TchOptimizer
#[derive(Debug)]
pub struct ProfiledOptimizer {
    optimizer: Optimizer,
    synchronizes: bool,
}

impl ProfiledOptimizer {
    /// Whether backward and step each wait until a CUDA device has done its work, so that their
    /// rows show how long it takes; false by default. See [`synchronize`] for what it costs.
    #[must_use]
    pub fn synchronize(mut self, waits: bool) -> Self {
        self.synchronizes = waits;
        self
    }

    /// The optimizer, no longer measured.
    pub fn into_inner(self) -> Optimizer {
        self.optimizer
    }

    /// Forgets all gradients, as `optimizer_zero_grad`.
    pub fn zero_grad(&mut self) {
        let _scope = profile!(OPTIMIZER_ZERO_GRAD);
        self.optimizer.zero_grad();
    }

    /// Moves the variables along their gradients, as `Optimizer.step`.
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

    /// Clips every element of every gradient, as `configure_gradient_clipping`.
    pub fn clip_grad_value(&self, max: f64) {
        let _scope = profile!(CONFIGURE_GRADIENT_CLIPPING);
        self.optimizer.clip_grad_value(max);
    }

    /// Scales all gradients together to a norm of at most `max`, as `configure_gradient_clipping`.
    pub fn clip_grad_norm(&self, max: f64) {
        let _scope = profile!(CONFIGURE_GRADIENT_CLIPPING);
        self.optimizer.clip_grad_norm(max);
    }

    /// Forgets gradients, makes new ones and applies them; three rows.
    pub fn backward_step(&mut self, loss: &Tensor) {
        self.zero_grad();
        self.backward(loss);
        self.step();
    }

    /// [`backward_step`](Self::backward_step) with every element of every gradient clipped.
    pub fn backward_step_clip(&mut self, loss: &Tensor, max: f64) {
        self.zero_grad();
        self.backward(loss);
        self.clip_grad_value(max);
        self.step();
    }

    /// [`backward_step`](Self::backward_step) with gradients scaled to a norm of at most `max`.
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

/// Keeps other crates from implementing the extension traits.
mod sealed {
    pub trait Optimizer {}
    impl Optimizer for tch::nn::Optimizer {}
    pub trait Backward {}
    impl Backward for tch::Tensor {}
}

/// `optimizer.profile_optimizer()` for [`tch::nn::Optimizer`].
pub trait ProfileOptimizerExt: sealed::Optimizer {
    /// The same optimizer, measured by the active profiler. See [`ProfiledOptimizer`].
    fn profile_optimizer(self) -> ProfiledOptimizer;
}

impl ProfileOptimizerExt for Optimizer {
    fn profile_optimizer(self) -> ProfiledOptimizer {
        ops::install();
        ProfiledOptimizer { optimizer: self, synchronizes: false }
    }
}

/// `loss.profile_backward()`: backward as an action of its own.
///
/// *What it measures*: on a CPU the work; on an accelerator the time to queue it
/// ([`synchronize`] waits for the work). *Cost* without an active profiler: one relaxed load.
pub trait ProfileBackwardExt: sealed::Backward {
    /// [`Tensor::backward`], measured as `backward` by the active profiler.
    ///
    /// # Panics
    ///
    /// As [`Tensor::backward`], where torch reports an error.
    fn profile_backward(&self);

    /// [`profile_backward`](Self::profile_backward) with errors as values.
    ///
    /// # Errors
    ///
    /// What torch says, such as a loss of more than one element.
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
