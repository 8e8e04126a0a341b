//! candle's optimizers for the training loop.

use std::any::{Any, TypeId};
use std::collections::HashSet;

use candle_core::backprop::GradStore;
use candle_core::{DType, Device, DeviceLocation, Tensor, Var};
use candle_nn::{AdamW, Optimizer, SGD};
use mlprof_core::hook::observe_loss;
use mlprof_core::names::short_type_name;
use mlprof_train::{self as train, SavedState, TrainOptimizer};

use crate::adam::Adam;
use crate::gradients::{norm, scale_to_norm};
use crate::memory::OptimizerMemory;
use crate::named_vars::NamedVars;
use crate::numerics::{self, Candle};
use crate::{Error, framework};

/// A candle optimizer with its accumulated gradients.
/// [`configure_optimizers`](train::TrainModule::configure_optimizers) returns it.
///
/// candle's `backward` returns the gradients of one loss. This type keeps gradients until they are
/// cleared. Gradients of several batches can be accumulated, clipped, inspected and averaged
/// between processes.
///
/// ```
/// use candle_core::{DType, Device, Tensor, Var};
/// use candle_nn::SGD;
/// use mlprof_candle::prelude::*;
///
/// let weight = Var::new(&[1f32, 2.], &Device::Cpu)?;
/// let mut optimizer = CandleOptimizer::<SGD>::new(vec![weight.clone()], 0.5)?;
/// for _batch in 0..2 {
///     optimizer.backward(&weight.sqr()?.sum_all()?, 0.5)?; // 2 · weight · 0.5, twice
/// }
/// optimizer.step()?;
/// assert_eq!(weight.to_vec1::<f32>()?, [0., 0.]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// # Memory
///
/// If the program uses a [`TrackingAllocator`](mlprof_core::allocation::TrackingAllocator), a
/// profiler can record host memory. The variables are then labelled as parameters at each step. The
/// optimizer's state is labelled if [`new`](Self::new) created the optimizer, even if that was
/// before the recording.
///
/// # Checkpoints
///
/// A trainer's checkpoints contain the state of candle's `AdamW` and `SGD` under two conditions:
///
/// - [`new`](Self::new) created the optimizer.
/// - The names of its variables are known ([`vars_by_name`](crate::vars_by_name)).
///
/// candle's `AdamW` does not expose its moments. This type therefore keeps the moments itself and
/// performs bit-identical steps. The `AdamW` returned by [`optimizer`](Self::optimizer) then has
/// the hyperparameters, but no variables.
///
/// # Time on accelerators
///
/// CUDA and Metal execute work asynchronously. `backward` and `step` return when the work is
/// queued, and the report shows *host* time. No method, including clipping, waits for the device
/// unless [`synchronize`](Self::synchronize) is enabled. The trainer reads the loss only [every few
/// steps](train::Trainer::log_every_n_steps).
#[derive(Debug)]
pub struct CandleOptimizer<O> {
    optimizer: O,
    /// Performs the steps instead of candle's AdamW, which then has no variables.
    adam: Option<Adam>,
    vars: NamedVars,
    gradients: GradStore,
    waits_for: Vec<Device>,
    memory: OptimizerMemory,
}

impl<O: Optimizer + 'static> CandleOptimizer<O> {
    /// Creates the optimizer for `vars`.
    ///
    /// The order of `VarMap::all_vars` changes from run to run, and with it the last bits of a
    /// gradient norm. Use [`vars_by_name`](crate::vars_by_name) for reproducible runs.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NoVariables`] or candle's error.
    pub fn new(vars: Vec<Var>, config: O::Config) -> Result<Self, Error> {
        let vars = NamedVars::of(vars);
        let is_adam = TypeId::of::<O>() == TypeId::of::<AdamW>();
        let of_candle = if is_adam { Vec::new() } else { vars.vars().to_vec() };
        let make = || -> candle_core::Result<_> {
            let adam = is_adam.then(|| Adam::new(&vars)).transpose()?;
            Ok((O::new(of_candle, config)?, adam))
        };
        let (made, memory) = OptimizerMemory::of(&vars, make);
        let (optimizer, adam) = made?;
        Ok(Self { memory, adam, ..Self::of_named(optimizer, vars)? })
    }

    /// Wraps an existing optimizer and the variables that it was created for. Memory profilers
    /// cannot see its state, because candle's optimizers do not expose it.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NoVariables`] if `vars` is empty.
    pub fn with_optimizer(optimizer: O, vars: Vec<Var>) -> Result<Self, Error> {
        Self::of_named(optimizer, NamedVars::of(vars))
    }

    fn of_named(optimizer: O, vars: NamedVars) -> Result<Self, Error> {
        framework::declare();
        if vars.vars().is_empty() {
            return Err(Error::NoVariables);
        }
        vars.vars().iter().for_each(|var| framework::trains_on(var.device()));
        let memory = OptimizerMemory::of_variables(&vars);
        let (gradients, waits_for) = (GradStore::default(), Vec::new());
        Ok(Self { optimizer, adam: None, vars, gradients, waits_for, memory })
    }

    /// Makes every backward and step wait for the devices of the variables, so that the actions
    /// show execution time. Waiting slows the training down, because host and device no longer work
    /// concurrently. It is disabled by default and has no effect on a CPU.
    ///
    /// ```
    /// # use candle_core::{Device, Var};
    /// # use candle_nn::AdamW;
    /// # use mlprof_candle::CandleOptimizer;
    /// # let vars = vec![Var::new(0f32, &Device::Cpu)?];
    /// let optimizer = CandleOptimizer::<AdamW>::new(vars, Default::default())?.synchronize(true);
    /// # Ok::<(), mlprof_candle::Error>(())
    /// ```
    #[must_use]
    pub fn synchronize(mut self, waits: bool) -> Self {
        self.waits_for.clear();
        if waits {
            let mut known = HashSet::<DeviceLocation>::new();
            let devices = self.vars.vars().iter().map(|var| var.device());
            self.waits_for =
                devices.filter(|device| known.insert(device.location())).cloned().collect();
        }
        self
    }

    /// Returns candle's optimizer.
    pub fn optimizer(&self) -> &O {
        &self.optimizer
    }

    /// Returns candle's optimizer mutably, for example to change its hyperparameters.
    pub fn optimizer_mut(&mut self) -> &mut O {
        &mut self.optimizer
    }

    /// Returns the trained variables.
    pub fn vars(&self) -> &[Var] {
        self.vars.vars()
    }

    /// Returns the accumulated gradients of all variables that have one.
    pub fn gradients(&self) -> impl Iterator<Item = (&Var, &Tensor)> {
        self.vars().iter().filter_map(|var| Some((var, self.gradients.get(var)?)))
    }

    /// Replaces every gradient with the result of `change`, in the order of [`vars`](Self::vars).
    /// Use it in `on_after_backward` to average gradients between processes.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor, Var};
    /// # use candle_nn::SGD;
    /// # use mlprof_candle::prelude::*;
    /// # let weight = Var::new(&[1f32, -2.], &Device::Cpu)?;
    /// # let mut optimizer = CandleOptimizer::<SGD>::new(vec![weight.clone()], 0.5)?;
    /// # optimizer.backward(&weight.sqr()?.sum_all()?, 1.0)?;
    /// optimizer.map_gradients(|_variable, gradient| gradient.clamp(-3f32, 3f32))?;
    /// # assert_eq!(optimizer.gradients().next().unwrap().1.to_vec1::<f32>()?, [2., -3.]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error of `change`. Earlier gradients have been changed by then.
    pub fn map_gradients<E>(
        &mut self,
        mut change: impl FnMut(&Var, &Tensor) -> Result<Tensor, E>,
    ) -> Result<(), E> {
        for var in self.vars.vars() {
            if let Some(gradient) = self.gradients.get(var) {
                let changed = change(var, gradient)?.detach();
                self.gradients.insert(var, changed);
            }
        }
        Ok(())
    }

    /// Returns candle's gradient store.
    pub fn grad_store(&self) -> &GradStore {
        &self.gradients
    }

    /// Returns candle's gradient store mutably, to insert or remove gradients.
    pub fn grad_store_mut(&mut self) -> &mut GradStore {
        &mut self.gradients
    }

    /// Returns the square root of the sum of squares over all gradients, as a tensor on the first
    /// gradient's device. Reading it waits for the device. Returns `None` without gradients.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn gradient_norm(&self) -> Result<Option<Tensor>, Error> {
        Ok(norm(self.gradients().map(|(_, gradient)| gradient))?)
    }

    /// Accumulates the gradients of the variables and drops all others.
    fn keep(&mut self, mut new: GradStore) -> Result<(), Error> {
        let mut reached = 0;
        for var in self.vars.vars() {
            let Some(gradient) = new.remove(var) else { continue };
            reached += 1;
            let gradient = match self.gradients.get(var) {
                Some(kept) => (kept + gradient)?,
                None => gradient,
            };
            self.gradients.insert(var, gradient.detach());
        }
        if reached == 0 {
            return Err(Error::NotReached { variables: self.vars().len() });
        }
        Ok(())
    }

    fn wait(&self) -> candle_core::Result<()> {
        self.waits_for.iter().try_for_each(Device::synchronize)
    }
}

fn one_element(loss: &Tensor) -> Result<(), Error> {
    match loss.elem_count() {
        1 => Ok(()),
        _ => Err(Error::NotOneElement { shape: loss.shape().clone() }),
    }
}

impl<O: Optimizer + 'static> TrainOptimizer for CandleOptimizer<O> {
    type Loss = Tensor;

    fn loss_value(&self, loss: &Tensor) -> train::Result<f64> {
        one_element(loss)?;
        // Some devices do not support 64-bit numbers.
        let loss = loss.to_device(&Device::Cpu)?.to_dtype(DType::F64)?;
        Ok(loss.flatten_all()?.get(0)?.to_scalar()?)
    }

    fn reading_waits(&self, loss: &Tensor) -> bool {
        !loss.device().is_cpu()
    }

    fn zero_grad(&mut self) -> train::Result<()> {
        self.gradients = GradStore::default();
        Ok(())
    }

    fn backward(&mut self, loss: &Tensor, scale: f64) -> train::Result<()> {
        one_element(loss)?;
        observe_loss::<Candle>(loss);
        let gradients =
            if scale == 1.0 { loss.backward()? } else { loss.affine(scale, 0.0)?.backward()? };
        self.keep(gradients)?;
        Ok(self.wait()?)
    }

    fn clip_gradients(&mut self, max_norm: f64) -> train::Result<()> {
        let Some(norm) = self.gradient_norm()? else { return Ok(()) };
        Ok(self.map_gradients(|_, gradient| scale_to_norm(gradient, &norm, max_norm))?)
    }

    fn clip_gradients_by_value(&mut self, max_value: f64) -> train::Result<()> {
        Ok(self.map_gradients(|_, gradient| gradient.clamp(-max_value, max_value))?)
    }

    fn step(&mut self) -> train::Result<()> {
        self.memory.label();
        let step = numerics::begin_step(&self.vars, &self.gradients);
        let adam = (&mut self.optimizer as &mut dyn Any).downcast_mut::<AdamW>();
        match (&mut self.adam, adam) {
            (Some(own), Some(adam)) => own.step(adam.params(), &self.gradients)?,
            _ => self.optimizer.step(&self.gradients)?,
        }
        if let Some(step) = step {
            step.end();
        }
        Ok(self.wait()?)
    }

    fn state(&self) -> train::Result<SavedState> {
        let optimizer = &self.optimizer as &dyn Any;
        match (&self.adam, optimizer.downcast_ref::<AdamW>()) {
            (Some(own), Some(adam)) => own.state(adam.params()),
            (None, Some(_)) => Err(
                "candle's AdamW does not expose its moments to CandleOptimizer::with_optimizer: \
                 create the optimizer with CandleOptimizer::new"
                    .into(),
            ),
            _ if optimizer.is::<SGD>() => {
                let mut state = SavedState::new();
                state.set("type", "SGD");
                Ok(state)
            }
            _ => {
                let name = short_type_name::<O>();
                Err(format!("the optimizer {name} does not expose its state").into())
            }
        }
    }

    fn load_state(&mut self, state: &SavedState) -> train::Result<()> {
        let own: String = self.state()?.get("type")?;
        let found: String = state.get("type")?;
        if own != found {
            return Err(
                format!("its optimizer is {found}, but the module's optimizer is {own}").into()
            );
        }
        let adam = (&mut self.optimizer as &mut dyn Any).downcast_mut::<AdamW>();
        match (&mut self.adam, adam) {
            (Some(own), Some(adam)) => own.load(state, adam),
            _ => Ok(()),
        }
    }

    fn learning_rate(&self) -> f64 {
        self.optimizer.learning_rate()
    }

    fn set_learning_rate(&mut self, learning_rate: f64) -> train::Result<()> {
        self.optimizer.set_learning_rate(learning_rate);
        Ok(())
    }
}
