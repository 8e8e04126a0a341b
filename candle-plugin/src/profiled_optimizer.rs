//! Optimizer profiling in a hand-written loop.

use std::ops::{Deref, DerefMut};

use candle_core::backprop::GradStore;
use candle_core::{Device, Result, Tensor, Var};
use candle_nn::Optimizer;
use mlprof_core::hook::observe_loss;
use mlprof_core::profile;

use crate::memory::OptimizerMemory;
use crate::named_vars::NamedVars;
use crate::numerics::{self, Candle};
use crate::{actions, framework};

/// Adds `.profile_optimizer()` to every candle optimizer.
pub trait ProfileOptimizerExt: Optimizer + sealed::Optimizer {
    /// Wraps this optimizer, so that the active profiler measures its steps.
    ///
    /// ```
    /// # use candle_core::{Device, Var};
    /// use candle_nn::{AdamW, Optimizer};
    /// use mlprof_candle::prelude::*;
    ///
    /// # let weight = Var::new(&[1f32, 2.], &Device::Cpu)?;
    /// # let vars = vec![weight.clone()];
    /// let mut optimizer = AdamW::new_lr(vars, 1e-3)?.profile_optimizer();
    /// # let loss = weight.sqr()?.sum_all()?;
    /// optimizer.backward_step(&loss)?; // two rows: backward, Optimizer.step
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    fn profile_optimizer(self) -> ProfiledOptimizer<Self> {
        framework::declare();
        ProfiledOptimizer { optimizer: self, waits_for: None, memory: OptimizerMemory::default() }
    }
}

impl<O: Optimizer> ProfileOptimizerExt for O {}

/// Prevents other crates from implementing the extension traits.
mod sealed {
    pub trait Optimizer {}
    impl<O: candle_nn::Optimizer> Optimizer for O {}
    pub trait Backward {}
    impl Backward for candle_core::Tensor {}
}

/// An optimizer whose steps are measured by the active profiler. It implements [`Optimizer`],
/// replaces the wrapped optimizer, and dereferences to it.
///
/// `step` is measured as `Optimizer.step`, as in the trainer. `backward_step` calls
/// `loss.backward()` and `step`, as candle's own method does. It is measured as `backward` followed
/// by `Optimizer.step`.
///
/// *Measured time*: execution time on a CPU. On CUDA and Metal, it is the time to queue the work
/// unless [`synchronize`](Self::synchronize) is enabled. *Cost* without an active profiler: one
/// relaxed load per action.
///
/// *Memory*: an optimizer created by `ProfiledOptimizer::<AdamW>::new(vars, config)` labels its
/// variables and state for a host memory profiler, as [`CandleOptimizer`](crate::CandleOptimizer)
/// does. After `.profile_optimizer()` on an existing optimizer, neither is known, because candle's
/// optimizers do not expose them.
#[derive(Debug)]
pub struct ProfiledOptimizer<O> {
    optimizer: O,
    waits_for: Option<Device>,
    memory: OptimizerMemory,
}

impl<O> ProfiledOptimizer<O> {
    /// Waits for `device` at the end of every backward and step, so that the actions show execution
    /// time. Waiting slows the training down, because host and device no longer work concurrently.
    #[must_use]
    pub fn synchronize(mut self, device: &Device) -> Self {
        self.waits_for = Some(device.clone());
        self
    }

    /// Returns the wrapped optimizer.
    pub fn into_inner(self) -> O {
        self.optimizer
    }

    fn wait(&self) -> Result<()> {
        self.waits_for.as_ref().map_or(Ok(()), Device::synchronize)
    }
}

impl<O: Optimizer> Optimizer for ProfiledOptimizer<O> {
    type Config = O::Config;

    fn new(vars: Vec<Var>, config: O::Config) -> Result<Self> {
        vars.iter().for_each(|var| framework::trains_on(var.device()));
        let named = NamedVars::of(vars.clone());
        let (optimizer, memory) = OptimizerMemory::of(&named, || O::new(vars, config));
        Ok(ProfiledOptimizer { memory, ..optimizer?.profile_optimizer() })
    }

    fn step(&mut self, gradients: &GradStore) -> Result<()> {
        let _scope = profile!(actions::OPTIMIZER_UPDATE);
        self.memory.label();
        let step = numerics::begin_step(self.memory.variables(), gradients);
        self.optimizer.step(gradients)?;
        if let Some(step) = step {
            step.end();
        }
        self.wait()
    }

    fn backward_step(&mut self, loss: &Tensor) -> Result<()> {
        let gradients = {
            let _scope = profile!(actions::BACKWARD);
            observe_loss::<Candle>(loss);
            let gradients = loss.backward()?;
            self.wait()?;
            gradients
        };
        self.step(&gradients)
    }

    fn learning_rate(&self) -> f64 {
        self.optimizer.learning_rate()
    }

    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.optimizer.set_learning_rate(learning_rate);
    }
}

impl<O> Deref for ProfiledOptimizer<O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.optimizer
    }
}

impl<O> DerefMut for ProfiledOptimizer<O> {
    fn deref_mut(&mut self) -> &mut O {
        &mut self.optimizer
    }
}

/// Measures the backward pass as a separate action: `loss.profile_backward()`.
///
/// ```
/// # use candle_core::{Device, Var};
/// use mlprof_candle::prelude::*;
///
/// let weight = Var::new(3f32, &Device::Cpu)?;
/// let gradients = weight.sqr()?.profile_backward()?;
/// assert_eq!(gradients.get(&weight).expect("reached").to_scalar::<f32>()?, 6.);
/// # Ok::<(), candle_core::Error>(())
/// ```
///
/// *Measured time*: execution time on a CPU; time to queue the work on CUDA and Metal. *Cost*
/// without an active profiler: one relaxed load.
pub trait ProfileBackwardExt: sealed::Backward {
    /// Calls [`Tensor::backward`] and measures it as `backward` with the active profiler.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Tensor::backward`].
    fn profile_backward(&self) -> Result<GradStore>;
}

impl ProfileBackwardExt for Tensor {
    fn profile_backward(&self) -> Result<GradStore> {
        let _scope = profile!(actions::BACKWARD);
        observe_loss::<Candle>(self);
        self.backward()
    }
}
