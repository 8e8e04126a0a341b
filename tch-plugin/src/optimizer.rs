//! tch's optimizers for the trainer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlprof_core::hook::observe_loss;
use mlprof_train::{Result, SavedState, TrainOptimizer};
use tch::nn::{OptimizerConfig, VarStore, Variables};
use tch::{COptimizer, Device, TchError, Tensor, no_grad_guard};

use crate::device::synchronize;
use crate::grad_scaler::GradScaler;
use crate::numerics::{self, Tch};
use crate::ops;
use crate::saved::{optimizer, random};

/// Prevents a division by zero for gradients of norm 0. PyTorch uses the same value.
const CLIPPING_EPSILON: f64 = 1e-6;

/// A tch optimizer for a [`Trainer`](mlprof_train::Trainer).
///
/// It accepts the same [configurations](tch::nn::OptimizerConfig) as [`tch::nn::Optimizer`] and
/// uses the same implementation. `nn::Adam::default().build(&vs, 1e-3)?` becomes
/// `TchOptimizer::new(nn::Adam::default(), &vs, 1e-3)?`. `nn::Optimizer` panics if torch reports an
/// error. This type returns errors instead, so that the trainer can report where in the run an
/// error occurred.
///
/// Variables that are added to the store later are trained as well.
///
/// On an accelerator, the trainer's rows show the time to queue the work, unless
/// [`synchronize(true)`](Self::synchronize) is set.
pub struct TchOptimizer {
    optimizer: COptimizer,
    variables: Arc<Mutex<Variables>>,
    /// Number of variables that were passed to the optimizer.
    known: usize,
    learning_rate: f64,
    synchronizes: bool,
    scaler: Option<Scaling>,
}

/// State of the gradient scaler, if it is used.
struct Scaling {
    scaler: GradScaler,
    /// Device tensor that is non-zero if all gradients are finite. Set after the gradients were
    /// divided by the factor.
    are_finite: Option<Tensor>,
}

impl TchOptimizer {
    /// Creates an optimizer for the variables of `store`.
    ///
    /// ```
    /// use tch::{Device, nn};
    /// use mlprof_tch::TchOptimizer;
    ///
    /// let store = nn::VarStore::new(Device::Cpu);
    /// let layer = nn::linear(store.root(), 2, 1, Default::default());
    /// let optimizer = TchOptimizer::new(nn::Sgd::default(), &store, 0.1)?;
    /// assert_eq!(optimizer.variables().len(), 2);
    /// # let _ = layer;
    /// # Ok::<(), tch::TchError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns torch's error for the configuration, such as a negative learning rate.
    pub fn new(
        config: impl OptimizerConfig,
        store: &VarStore,
        learning_rate: f64,
    ) -> Result<Self, TchError> {
        let mut optimizer = Self {
            optimizer: config.build_copt(learning_rate)?,
            variables: store.variables_.clone(),
            known: 0,
            learning_rate,
            synchronizes: false,
            scaler: None,
        };
        optimizer.add_new_variables()?;
        ops::trains_on(store.device());
        ops::install();
        ops::follow(&optimizer.variables);
        Ok(optimizer)
    }

    /// Makes backward and step wait for the CUDA device, so that their rows show execution time;
    /// disabled by default. See [`synchronize`] for the cost.
    #[must_use]
    pub fn synchronize(mut self, waits: bool) -> Self {
        self.synchronizes = waits;
        self
    }

    /// Scales the loss before backward, for networks that use 16-bit floats, as with
    /// [`tch::autocast`]. Steps with non-finite gradients are skipped. This check reads a value
    /// from the device in each step.
    #[must_use]
    pub fn grad_scaler(mut self, scaler: GradScaler) -> Self {
        self.scaler = Some(Scaling { scaler, are_finite: None });
        self
    }

    /// Returns the gradient scaler with its current state, if there is one.
    pub fn scaler(&self) -> Option<&GradScaler> {
        self.scaler.as_ref().map(|scaling| &scaling.scaler)
    }

    /// Returns the underlying optimizer, for settings such as the weight decay of one group.
    pub fn inner_mut(&mut self) -> &mut COptimizer {
        &mut self.optimizer
    }

    /// Returns all trainable variables. They share their data with the variables of the store.
    pub fn variables(&self) -> Vec<Tensor> {
        self.lock()
            .trainable_variables
            .iter()
            .map(|variable| variable.tensor.shallow_clone())
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, Variables> {
        // The list stays consistent if a thread panics while it adds variables, so poisoning is
        // ignored.
        self.variables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_new_variables(&mut self) -> Result<(), TchError> {
        let variables = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        let all = &variables.trainable_variables;
        for variable in all.get(self.known..).unwrap_or_default() {
            self.optimizer.add_parameters(&variable.tensor, variable.group)?;
            self.known += 1;
        }
        Ok(())
    }

    /// Returns all defined gradients.
    fn gradients(&self) -> Result<Vec<Tensor>, TchError> {
        let variables = self.lock();
        let gradients =
            variables.trainable_variables.iter().map(|variable| variable.tensor.f_grad());
        let is_missing =
            |gradient: &Result<Tensor, _>| gradient.as_ref().is_ok_and(|found| !found.defined());
        gradients.filter(|gradient| !is_missing(gradient)).collect()
    }

    /// Divides the gradients by the scaler's factor, unless this was done already.
    fn unscale(&mut self) -> Result<(), TchError> {
        let Some(Scaling { scaler, are_finite: None }) = &self.scaler else { return Ok(()) };
        let factor = 1.0 / scaler.scale();
        let _no_grad = no_grad_guard();
        let mut finite = Vec::new();
        for gradient in &mut self.gradients()? {
            let _ = gradient.f_mul_scalar_(factor)?;
            finite.push(gradient.f_isfinite()?.f_all()?);
        }
        let are_finite = match finite.is_empty() {
            true => Tensor::from(true),
            false => Tensor::f_stack(&finite, 0)?.f_all()?,
        };
        if let Some(scaling) = &mut self.scaler {
            scaling.are_finite = Some(are_finite);
        }
        Ok(())
    }

    /// Returns `true` if the scaler allows the step, and resets its record of the gradients.
    fn takes_step(&mut self) -> Result<bool, TchError> {
        self.unscale()?;
        let Some(scaling) = &mut self.scaler else { return Ok(true) };
        let Some(are_finite) = scaling.are_finite.take() else { return Ok(true) };
        let are_finite = are_finite.f_int64_value(&[])? != 0;
        scaling.scaler.update(are_finite);
        Ok(are_finite)
    }

    /// Labels the memory of variables and gradients for a profiler that records memory.
    fn label_memory(&self) {
        ops::label_variables(self.lock().trainable_variables.iter().map(|one| &one.tensor));
    }

    fn wait_for(&self, device: Option<Device>) {
        if let (true, Some(device)) = (self.synchronizes, device) {
            synchronize(device);
        }
    }
}

impl fmt::Debug for TchOptimizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TchOptimizer")
            .field("variables", &self.known)
            .field("learning_rate", &self.learning_rate)
            .field("synchronizes", &self.synchronizes)
            .field("scaler", &self.scaler())
            .finish_non_exhaustive()
    }
}

impl TrainOptimizer for TchOptimizer {
    type Loss = Tensor;

    fn loss_value(&self, loss: &Tensor) -> Result<f64> {
        Ok(loss.f_double_value(&[])?)
    }

    fn reading_waits(&self, loss: &Tensor) -> bool {
        loss.device() != Device::Cpu
    }

    fn zero_grad(&mut self) -> Result<()> {
        self.add_new_variables()?;
        if let Some(scaling) = &mut self.scaler {
            scaling.are_finite = None;
        }
        Ok(self.optimizer.zero_grad()?)
    }

    fn backward(&mut self, loss: &Tensor, scale: f64) -> Result<()> {
        observe_loss::<Tch>(loss);
        let scale = scale * self.scaler().map_or(1.0, GradScaler::scale);
        if scale == 1.0 {
            loss.f_backward()?;
        } else {
            loss.f_mul_scalar(scale)?.f_backward()?;
        }
        self.wait_for(Some(loss.device()));
        Ok(())
    }

    /// Clips like PyTorch's `clip_grad_norm_`. The norm stays on its device, so clipping does not
    /// wait for the device.
    fn clip_gradients(&mut self, max_norm: f64) -> Result<()> {
        self.unscale()?;
        self.label_memory();
        let _no_grad = no_grad_guard();
        let mut gradients = self.gradients()?;
        if gradients.is_empty() {
            return Ok(());
        }
        let norms = gradients.iter().map(Tensor::f_norm).collect::<Result<Vec<_>, _>>()?;
        let norm = Tensor::f_stack(&norms, 0)?.f_norm()?;
        let factor = norm.f_add_scalar(CLIPPING_EPSILON)?.f_reciprocal()?.f_mul_scalar(max_norm)?;
        let factor = factor.f_clamp_max(1.0)?;
        for gradient in &mut gradients {
            let _ = gradient.f_mul_(&factor)?;
        }
        Ok(())
    }

    /// Clips like PyTorch's `clip_grad_value_`.
    fn clip_gradients_by_value(&mut self, max_value: f64) -> Result<()> {
        self.unscale()?;
        self.label_memory();
        let _no_grad = no_grad_guard();
        for gradient in &mut self.gradients()? {
            let _ = gradient.f_clamp_(-max_value, max_value)?;
        }
        Ok(())
    }

    fn unscale_gradients(&mut self) -> Result<()> {
        Ok(self.unscale()?)
    }

    /// Runs `evaluation` inside `tch::no_grad`. Code that needs gradients there uses
    /// `tch::with_grad`.
    fn without_gradients<T>(evaluation: impl FnOnce() -> T) -> T {
        let _no_grad = no_grad_guard();
        evaluation()
    }

    fn step(&mut self) -> Result<()> {
        self.add_new_variables()?;
        if !self.takes_step()? {
            return Ok(());
        }
        let tracked = {
            let variables = self.lock();
            let tensors = variables.trainable_variables.iter().map(|one| &one.tensor);
            ops::TrackedStep::begin(tensors)
        };
        let step = numerics::begin_step(|| numerics::named(&self.lock()));
        self.optimizer.step()?;
        if let Some(step) = step {
            step.end();
        }
        drop(tracked);
        if self.synchronizes {
            let first = self.lock().trainable_variables.first().map(|first| first.tensor.device());
            self.wait_for(first);
        }
        Ok(())
    }

    fn state(&self) -> Result<SavedState> {
        let named = numerics::named(&self.lock());
        let mut state = optimizer::state(&self.optimizer, &named)?;
        if let Some(scaler) = self.scaler() {
            scaler.save(&mut state);
        }
        Ok(state)
    }

    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        self.add_new_variables()?;
        let named = numerics::named(&self.lock());
        let scaler = self.scaler().map(|scaler| scaler.loaded(state)).transpose()?;
        optimizer::load(&mut self.optimizer, &named, state)?;
        if let (Some(own), Some(scaler)) = (&mut self.scaler, scaler) {
            own.scaler = scaler;
        }
        // The learning rates of the groups may differ. Only the first one is reported.
        self.learning_rate = state.get_option("lr/0")?.unwrap_or(self.learning_rate);
        Ok(())
    }

    fn random_state(&self) -> Result<Option<SavedState>> {
        random::state(&numerics::named(&self.lock())).map(Some)
    }

    fn load_random_state(&mut self, state: &SavedState) -> Result<()> {
        random::load(&numerics::named(&self.lock()), state)
    }

    /// Returns the learning rate that was last set for all variables.
    fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    /// Sets the learning rate of all groups of variables.
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()> {
        self.optimizer.set_learning_rate(learning_rate)?;
        self.learning_rate = learning_rate;
        Ok(())
    }
}
