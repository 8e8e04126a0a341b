//! An optimizer that is measured in a loop of one's own.

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

/// `.profile_optimizer()` for every optimizer of candle.
pub trait ProfileOptimizerExt: Optimizer + sealed::Optimizer {
    /// This optimizer, with its steps measured by the active profiler.
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

/// Keeps other crates from implementing the extension traits.
mod sealed {
    pub trait Optimizer {}
    impl<O: candle_nn::Optimizer> Optimizer for O {}
    pub trait Backward {}
    impl Backward for candle_core::Tensor {}
}

/// An optimizer whose steps the active profiler measures. It is an [`Optimizer`] itself and takes
/// the place of the one inside; everything else of that one is reached through it.
///
/// `step` is measured as `Optimizer.step`, the name that the trainer uses for the same update.
/// `backward_step` is measured as `backward` followed by `Optimizer.step`: it calls
/// `loss.backward()` and `step`, as candle's own does.
///
/// *What it measures*: on a CPU the work; on CUDA and Metal the time to queue it, unless
/// [`synchronize`](Self::synchronize) asks to wait. *Cost* without an active profiler: one relaxed
/// load per action.
///
/// *Memory*: one that is made by `ProfiledOptimizer::<AdamW>::new(vars, config)` labels variables and the
/// optimizer's state for a profiler of the host's memory, as
/// [`CandleOptimizer`](crate::CandleOptimizer) does. Of an optimizer that was there before
/// `.profile_optimizer()` neither is known: candle's show them to nobody.
#[derive(Debug)]
pub struct ProfiledOptimizer<O> {
    optimizer: O,
    waits_for: Option<Device>,
    memory: OptimizerMemory,
}

impl<O> ProfiledOptimizer<O> {
    /// Waits for `device` at the end of every backward and step, so that the time of these actions
    /// is that of their work. It slows training down: host and device no longer work at the same
    /// time.
    #[must_use]
    pub fn synchronize(mut self, device: &Device) -> Self {
        self.waits_for = Some(device.clone());
        self
    }

    /// The optimizer inside.
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

/// `loss.profile_backward()`: backward as an action of its own.
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
/// *What it measures*: on a CPU the work; on CUDA and Metal the time to queue it. *Cost* without an
/// active profiler: one relaxed load.
pub trait ProfileBackwardExt: sealed::Backward {
    /// [`Tensor::backward`], measured as `backward` by the active profiler.
    ///
    /// # Errors
    ///
    /// As [`Tensor::backward`].
    fn profile_backward(&self) -> Result<GradStore>;
}

impl ProfileBackwardExt for Tensor {
    fn profile_backward(&self) -> Result<GradStore> {
        let _scope = profile!(actions::BACKWARD);
        observe_loss::<Candle>(self);
        self.backward()
    }
}
