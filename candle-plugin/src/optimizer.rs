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

/// An optimizer of candle, with the gradients that it will step along: what
/// [`configure_optimizers`](train::TrainModule::configure_optimizers) returns.
///
/// candle's `backward` gives the gradients of one loss; this keeps them until they are forgotten,
/// so that those of several batches add up, can be clipped, looked at, and averaged between
/// processes.
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
/// Where a [`TrackingAllocator`](mlprof_core::allocation::TrackingAllocator) tells a profiler of
/// the host's memory, the variables are labelled as parameters at each step, and what the optimizer
/// keeps as its state, also if it was made long before the recording: if [`new`](Self::new) made
/// it.
///
/// # Checkpoints
///
/// The state of candle's `AdamW` and `SGD` is in a trainer's checkpoints if [`new`](Self::new) made
/// the optimizer, of variables whose names are known ([`vars_by_name`](crate::vars_by_name)).
/// candle's `AdamW` shows its moments to nobody: this type keeps them itself, and makes the same
/// steps to the last bit. The `AdamW` of [`optimizer`](Self::optimizer) then has the parameters,
/// and no variables.
///
/// # Time on accelerators
///
/// CUDA and Metal work behind the program's back: `backward` and `step` return when the work is
/// queued, and the report shows what the *host* spent. Nothing here waits for the device, clipping
/// included, unless [`synchronize`](Self::synchronize) asks for it; the trainer reads the loss only
/// [now and then](train::Trainer::log_every_n_steps).
#[derive(Debug)]
pub struct CandleOptimizer<O> {
    optimizer: O,
    /// Makes the steps in place of candle's AdamW, which has no variables then.
    adam: Option<Adam>,
    vars: NamedVars,
    gradients: GradStore,
    waits_for: Vec<Device>,
    memory: OptimizerMemory,
}

impl<O: Optimizer + 'static> CandleOptimizer<O> {
    /// Makes the optimizer for these variables.
    ///
    /// `VarMap::all_vars` gives them in an order that changes from run to run, and with it the last
    /// bits of a gradient norm: where runs must be equal, take
    /// [`vars_by_name`](crate::vars_by_name).
    ///
    /// # Errors
    ///
    /// [`Error::NoVariables`], and what candle says.
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

    /// Takes an optimizer that exists, and the variables that it was made for. What it keeps is then
    /// not known to a profiler of memory: candle's optimizers show nothing of their state.
    ///
    /// # Errors
    ///
    /// [`Error::NoVariables`].
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

    /// Whether to wait for the devices of the variables at the end of every backward and step, so
    /// that the time of these actions is that of their work. It slows training down: host and
    /// device no longer work at the same time. False by default; on a CPU there is nothing to wait
    /// for.
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

    /// candle's optimizer.
    pub fn optimizer(&self) -> &O {
        &self.optimizer
    }

    /// candle's optimizer, to change its parameters.
    pub fn optimizer_mut(&mut self) -> &mut O {
        &mut self.optimizer
    }

    /// The variables that are trained.
    pub fn vars(&self) -> &[Var] {
        self.vars.vars()
    }

    /// The gradients so far, of the variables that have one.
    pub fn gradients(&self) -> impl Iterator<Item = (&Var, &Tensor)> {
        self.vars().iter().filter_map(|var| Some((var, self.gradients.get(var)?)))
    }

    /// Replaces every gradient by what `change` makes of it, in the order of
    /// [`vars`](Self::vars). Processes that train together average their gradients so, in
    /// `on_after_backward`.
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
    /// The first that `change` returns; gradients before it are changed by then.
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

    /// candle's store of the gradients.
    pub fn grad_store(&self) -> &GradStore {
        &self.gradients
    }

    /// candle's store of the gradients, to insert and to remove some.
    pub fn grad_store_mut(&mut self) -> &mut GradStore {
        &mut self.gradients
    }

    /// The root of the sum of squares over all gradients, as a tensor on the first one's device:
    /// reading it waits for the device. `None` without gradients.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn gradient_norm(&self) -> Result<Option<Tensor>, Error> {
        Ok(norm(self.gradients().map(|(_, gradient)| gradient))?)
    }

    /// Adds up the gradients of the variables, and lets go of all others.
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
        // Not every device has 64-bit numbers.
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
                "it was given to CandleOptimizer::with_optimizer, and candle's AdamW shows its \
                                    moments to nobody: make it by CandleOptimizer::new"
                    .into(),
            ),
            _ if optimizer.is::<SGD>() => {
                let mut state = SavedState::new();
                state.set("type", "SGD");
                Ok(state)
            }
            _ => {
                let name = short_type_name::<O>();
                Err(format!("the optimizer {name} shows its state to nobody").into())
            }
        }
    }

    fn load_state(&mut self, state: &SavedState) -> train::Result<()> {
        let own: String = self.state()?.get("type")?;
        let found: String = state.get("type")?;
        if own != found {
            return Err(format!("its optimizer is {found}, and the module's is {own}").into());
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
