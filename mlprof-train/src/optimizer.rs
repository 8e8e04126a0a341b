//! The interface between the loop and a framework: computing and applying gradients.

use std::collections::BTreeMap;

use super::error::Result;
use super::plateau::ReduceLrOnPlateau;
use super::saved_state::SavedState;

/// An optimizer as the loop drives it. The plugin of a framework implements it for the framework's
/// optimizers.
///
/// The loop measures every call, so an implementation does not need to.
pub trait TrainOptimizer {
    /// Loss that a training step returns and backward starts from: a tensor of one element.
    type Loss;

    /// Returns the loss as a number. On an accelerator this waits until the device has computed it.
    ///
    /// # Errors
    ///
    /// An error of the framework, such as a loss of more than one element.
    fn loss_value(&self, loss: &Self::Loss) -> Result<f64>;

    /// Returns whether [`loss_value`](Self::loss_value) waits for a device. The loop then reads the
    /// loss only every [`log_every_n_steps`](super::Trainer::log_every_n_steps) steps, so as not to
    /// hold the device up; on a CPU it reads every one.
    fn reading_waits(&self, loss: &Self::Loss) -> bool {
        let _ = loss;
        false
    }

    /// Clears all gradients.
    ///
    /// # Errors
    ///
    /// Returns the framework's error.
    fn zero_grad(&mut self) -> Result<()>;

    /// Adds the gradients of `loss · scale` to the accumulated ones.
    ///
    /// # Errors
    ///
    /// Returns the framework's error.
    fn backward(&mut self, loss: &Self::Loss, scale: f64) -> Result<()>;

    /// Scales all gradients together so that their norm is at most `max_norm`. The norm is the root
    /// of the sum of squares over all parameters.
    ///
    /// # Errors
    ///
    /// The framework's errors.
    fn clip_gradients(&mut self, max_norm: f64) -> Result<()>;

    /// Limits every element of every gradient to `-max_value ..= max_value`.
    ///
    /// # Errors
    ///
    /// Returns the framework's error. The default implementation always returns an error, because
    /// it does not support clipping by value.
    fn clip_gradients_by_value(&mut self, max_value: f64) -> Result<()> {
        let name = mlprof_core::names::short_type_name::<Self>();
        Err(format!("cannot clip gradients to {max_value}: {name} clips by norm only").into())
    }

    /// Divides the gradients by the factor with which a gradient scaler has multiplied the loss.
    /// Does nothing by default.
    ///
    /// The loop calls it after the last backward pass before an optimizer step. Later code, such as
    /// `on_before_optimizer_step`, clipping and numerics profilers, then sees the unscaled
    /// gradients.
    ///
    /// # Errors
    ///
    /// Returns the framework's error.
    fn unscale_gradients(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs an evaluation: a pass over validation, test or prediction data, with its hooks. A
    /// framework that records operations for backward should disable the recording during the call.
    /// The default implementation only calls `evaluation`.
    fn without_gradients<T>(evaluation: impl FnOnce() -> T) -> T {
        evaluation()
    }

    /// Updates the parameters from the gradients.
    ///
    /// # Errors
    ///
    /// The framework's errors.
    fn step(&mut self) -> Result<()>;

    /// Returns the state that a checkpoint keeps, such as the moments of each parameter.
    ///
    /// # Errors
    ///
    /// Returns the reason why the state cannot be read. The checkpoint then contains only the
    /// weights, and training cannot be resumed from it. The default implementation always returns
    /// an error.
    fn state(&self) -> Result<SavedState> {
        Err("its type does not implement TrainOptimizer::state".into())
    }

    /// Restores a state that [`state`](Self::state) returned for an optimizer of the same model.
    ///
    /// # Errors
    ///
    /// Returns an error if the state belongs to another optimizer or model. An implementation must
    /// check everything before it changes anything, so that the optimizer is unchanged after an
    /// error.
    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        let _ = state;
        Err("the optimizer does not implement TrainOptimizer::load_state".into())
    }

    /// Returns the state of the framework's random number generators for a checkpoint. With it,
    /// dropout draws the same numbers in a resumed training. The default, `None`, is for a
    /// framework that does not expose the state.
    ///
    /// # Errors
    ///
    /// Returns the framework's error. The checkpoint is then written without the state.
    fn random_state(&self) -> Result<Option<SavedState>> {
        Ok(None)
    }

    /// Restores a state that [`random_state`](Self::random_state) returned. Generators that the
    /// state does not contain are unchanged. By default, it restores nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if a generator does not accept its state.
    fn load_random_state(&mut self, state: &SavedState) -> Result<()> {
        let _ = state;
        Ok(())
    }

    /// Returns the learning rate.
    fn learning_rate(&self) -> f64;

    /// Sets the learning rate.
    ///
    /// # Errors
    ///
    /// The framework's errors.
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()>;
}

/// Algorithm of gradient clipping, as in Lightning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GradientClipAlgorithm {
    /// Scales all gradients together to a maximum norm.
    #[default]
    Norm,
    /// Limits each element to a maximum absolute value.
    Value,
}

/// Interval of a learning rate schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LrInterval {
    /// After every epoch, as in Lightning by default.
    #[default]
    Epoch,
    /// After every optimizer step.
    Step,
}

type RateFunction = Box<dyn FnMut(usize) -> f64>;

/// A learning rate schedule.
enum Schedule {
    /// By the number of epochs or steps that are done.
    Count(RateFunction),
    /// By a logged metric of this name.
    Metric(String, ReduceLrOnPlateau),
}

/// Optimizer with an optional learning rate schedule, as returned by
/// [`configure_optimizers`](super::TrainModule::configure_optimizers).
///
/// `.into()` converts a single optimizer.
pub struct Optimizers<O> {
    pub(super) optimizer: O,
    schedule: Option<(LrInterval, Schedule)>,
}
mlprof_core::debug_as_name!([O] Optimizers<O>);

impl<O> Optimizers<O> {
    /// Creates a value with this optimizer at its current learning rate.
    pub fn new(optimizer: O) -> Self {
        Self { optimizer, schedule: None }
    }

    /// Sets the learning rate with a function. The trainer calls `schedule(0)` before the first
    /// batch, and `schedule(done)` after every epoch or step. `done` is the number of completed
    /// epochs or optimizer steps.
    ///
    /// An epoch-wise schedule advances after the last batch of an epoch, before its
    /// `on_train_batch_end` and the validation.
    ///
    /// A rate that is negative, infinite or NaN ends the fit.
    #[must_use]
    pub fn lr_scheduler(
        mut self,
        interval: LrInterval,
        schedule: impl FnMut(usize) -> f64 + 'static,
    ) -> Self {
        self.schedule = Some((interval, Schedule::Count(Box::new(schedule))));
        self
    }

    /// Lowers the learning rate when the metric that was [logged](super::TrainerState::log) as
    /// `monitor` no longer improves.
    ///
    /// The schedule reads the metric at `interval`: after every epoch, following
    /// `on_train_epoch_end`, or after every optimizer step and its validation, if there is one. If
    /// the metric has not been logged by then, the fit ends with an error.
    #[must_use]
    pub fn reduce_on_plateau(
        mut self,
        interval: LrInterval,
        monitor: impl Into<String>,
        schedule: ReduceLrOnPlateau,
    ) -> Self {
        self.schedule = Some((interval, Schedule::Metric(monitor.into(), schedule)));
        self
    }

    /// Returns whether there is a schedule that goes by `interval`, and by a metric or not.
    pub(super) fn has_schedule(&self, interval: LrInterval, follows_metric: bool) -> bool {
        self.schedule.as_ref().is_some_and(|(own, schedule)| {
            *own == interval && matches!(schedule, Schedule::Metric(..)) == follows_metric
        })
    }
}

impl<O: TrainOptimizer> Optimizers<O> {
    /// Sets the rate of the first step and returns it.
    pub(super) fn begin(&mut self) -> Result<f64> {
        match &self.schedule {
            Some((_, Schedule::Count(_))) => self.schedule_step(0),
            _ => check_rate(self.optimizer.learning_rate(), "the optimizer"),
        }
    }

    /// Sets the learning rate after `done` epochs or steps, and returns the optimizer's current
    /// rate.
    pub(super) fn schedule_step(&mut self, done: usize) -> Result<f64> {
        if let Some((_, Schedule::Count(schedule))) = &mut self.schedule {
            let rate = check_rate(schedule(done), "the schedule")?;
            self.optimizer.set_learning_rate(rate)?;
        }
        Ok(self.optimizer.learning_rate())
    }

    /// Returns the state of the schedule for a checkpoint. A schedule that follows counts has an
    /// empty state.
    pub(super) fn schedule_state(&self) -> SavedState {
        match &self.schedule {
            Some((_, Schedule::Metric(_, schedule))) => schedule.state(),
            _ => SavedState::new(),
        }
    }

    /// Restores a state that [`schedule_state`](Self::schedule_state) returned.
    pub(super) fn load_schedule_state(&mut self, state: &SavedState) -> Result<()> {
        match &mut self.schedule {
            Some((_, Schedule::Metric(_, schedule))) => schedule.load_state(state),
            _ => Ok(()),
        }
    }

    /// Updates the learning rate from the metric that the schedule follows, and returns the
    /// optimizer's current rate.
    pub(super) fn plateau_step(&mut self, metrics: &BTreeMap<String, f64>) -> Result<f64> {
        if let Some((_, Schedule::Metric(monitor, schedule))) = &mut self.schedule {
            let Some(metric) = metrics.get(monitor) else {
                let known: Vec<_> = metrics.keys().collect();
                return Err(format!(
                    "cannot follow the metric {monitor:?}: it was not logged; the logged metrics \
                     are {known:?}"
                )
                .into());
            };
            let rate = self.optimizer.learning_rate();
            if let Some(lower) = schedule.step(*metric, rate) {
                self.optimizer.set_learning_rate(check_rate(lower, "the schedule")?)?;
            }
        }
        Ok(self.optimizer.learning_rate())
    }
}

/// Returns `rate` if it is finite and not negative, and an error otherwise.
fn check_rate(rate: f64, source: &str) -> Result<f64> {
    if rate.is_finite() && rate >= 0.0 {
        return Ok(rate);
    }
    let problem = "use a finite number of at least 0";
    Err(format!("cannot use the learning rate {rate} of {source}: {problem}").into())
}

impl<O: TrainOptimizer> From<O> for Optimizers<O> {
    fn from(optimizer: O) -> Self {
        Self::new(optimizer)
    }
}
