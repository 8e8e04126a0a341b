//! Early end of a fit when a metric no longer improves.

use super::monitored;
use crate::error::Result;
use crate::mode::Mode;
use crate::module::{Callback, HookContext, TrainModule};
use crate::saved_state::SavedState;
use crate::state::TrainerState;
use mlprof_core::Stage;

/// Ends the fit when a metric has not improved for some checks, like Lightning's callback of the
/// same name. It stops the trainer with [`TrainerState::stop`].
///
/// The metric is checked after each training epoch if the trainer validates once per epoch, and
/// after each validation otherwise.
///
/// ```
/// use mlprof_train::{EarlyStopping, Mode, Trainer};
///
/// let stopping = EarlyStopping::new("val_loss", Mode::Min).patience(5).min_delta(1e-3);
/// # fn with<M: mlprof_train::TrainModule>(stopping: EarlyStopping) -> Trainer<M> {
/// let trainer = Trainer::new().callback(stopping);
/// # trainer
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct EarlyStopping {
    monitor: String,
    mode: Mode,
    patience: usize,
    min_delta: f64,
    stopping_threshold: Option<f64>,
    divergence_threshold: Option<f64>,
    check_finite: bool,
    strict: bool,
    check_on_train_epoch_end: Option<bool>,
    best: f64,
    waited: usize,
}

impl EarlyStopping {
    /// Creates a callback that watches the metric [logged](TrainerState::log) as `monitor`. The fit
    /// ends after three checks without a better value, or after a value that is not finite.
    pub fn new(monitor: impl Into<String>, mode: Mode) -> Self {
        Self {
            monitor: monitor.into(),
            mode,
            patience: 3,
            min_delta: 0.0,
            stopping_threshold: None,
            divergence_threshold: None,
            check_finite: true,
            strict: true,
            check_on_train_epoch_end: None,
            best: mode.worst(),
            waited: 0,
        }
    }

    /// Sets the number of checks without a better value after which the fit ends. The default is 3.
    #[must_use]
    pub fn patience(mut self, checks: usize) -> Self {
        self.patience = checks;
        self
    }

    /// Sets the minimum change that counts as an improvement. The default is 0.
    #[must_use]
    pub fn min_delta(mut self, change: f64) -> Self {
        self.min_delta = change.abs();
        self
    }

    /// Ends the fit at once when the metric is better than `value`.
    #[must_use]
    pub fn stopping_threshold(mut self, value: f64) -> Self {
        self.stopping_threshold = Some(value);
        self
    }

    /// Ends the fit at once when the metric is worse than `value`.
    #[must_use]
    pub fn divergence_threshold(mut self, value: f64) -> Self {
        self.divergence_threshold = Some(value);
        self
    }

    /// Sets whether a value that is not finite ends the fit; true by default.
    #[must_use]
    pub fn check_finite(mut self, checks: bool) -> Self {
        self.check_finite = checks;
        self
    }

    /// Sets whether a check is an error if the metric was not logged; true by default.
    #[must_use]
    pub fn strict(mut self, is_strict: bool) -> Self {
        self.strict = is_strict;
        self
    }

    /// Sets whether checks come after training epochs (`true`) or validations (`false`).
    #[must_use]
    pub fn check_on_train_epoch_end(mut self, checks: bool) -> Self {
        self.check_on_train_epoch_end = Some(checks);
        self
    }

    fn checks_epochs(&self, trainer: &TrainerState) -> bool {
        self.check_on_train_epoch_end.unwrap_or(trainer.validates_once_per_epoch)
    }

    fn check(&mut self, trainer: &mut TrainerState) -> Result<()> {
        let value = match monitored(trainer, &self.monitor) {
            Ok(value) => value,
            Err(error) if self.strict => return Err(error),
            Err(_) => return Ok(()),
        };
        if let Some(reason) = self.reason_to_stop(value) {
            trainer.stop(reason);
        }
        Ok(())
    }

    /// Records a value and returns the reason to stop, if there is one.
    fn reason_to_stop(&mut self, value: f64) -> Option<String> {
        let (monitor, mode) = (&self.monitor, self.mode);
        if self.check_finite && !value.is_finite() {
            return Some(format!("{monitor} is {value}, and the best value was {}", self.best));
        }
        if let Some(threshold) = self.stopping_threshold
            && mode.is_better(value, threshold)
        {
            return Some(format!("{monitor} is {value}, which is better than {threshold}"));
        }
        if let Some(threshold) = self.divergence_threshold
            && mode.is_better(threshold, value)
        {
            return Some(format!("{monitor} is {value}, which is worse than {threshold}"));
        }
        let least = match mode {
            Mode::Min => value + self.min_delta,
            Mode::Max => value - self.min_delta,
        };
        if mode.is_better(least, self.best) {
            (self.best, self.waited) = (value, 0);
            return None;
        }
        self.waited += 1;
        (self.waited >= self.patience).then(|| {
            let (checks, best) = (self.waited, self.best);
            format!("{monitor} did not improve on {best} in {checks} checks")
        })
    }

    fn saved(&self) -> SavedState {
        let mut state = SavedState::new();
        state.set("best", self.best);
        state.set("waited", self.waited);
        state
    }

    fn restore(&mut self, state: &SavedState) -> Result<()> {
        (self.best, self.waited) = (state.get("best")?, state.get("waited")?);
        Ok(())
    }
}

impl<M: TrainModule> Callback<M> for EarlyStopping {
    fn state_key(&self) -> String {
        format!("EarlyStopping monitor={} mode={}", self.monitor, self.mode.name())
    }

    fn state(&self) -> SavedState {
        self.saved()
    }

    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        self.restore(state)
    }

    fn is_monitor(&self) -> bool {
        true
    }

    fn on_validation_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let is_due = trainer.is_fit() && trainer.stage() == Stage::Validate;
        if is_due && !self.checks_epochs(trainer) { self.check(trainer) } else { Ok(()) }
    }

    fn on_train_epoch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        if self.checks_epochs(trainer) { self.check(trainer) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the index of the value at which the callback stops, and the reason.
    fn stops(mut stopping: EarlyStopping, values: &[f64]) -> Option<(usize, String)> {
        let mut reasons = values.iter().map(|value| stopping.reason_to_stop(*value));
        reasons.by_ref().enumerate().find_map(|(place, reason)| Some((place, reason?)))
    }

    fn place(stopping: EarlyStopping, values: &[f64]) -> Option<usize> {
        stops(stopping, values).map(|(place, _)| place)
    }

    #[test]
    fn it_waits_for_a_better_value_as_lightning() {
        let loss = || EarlyStopping::new("loss", Mode::Min);
        assert_eq!(place(loss(), &[3., 2., 2., 2., 2.]), Some(4), "three checks after the best");
        assert_eq!(place(loss(), &[3., 2., 2., 2., 1., 1., 1.]), None);
        assert_eq!(place(loss().patience(1), &[3., 2., 2.]), Some(2));
        assert_eq!(place(loss().patience(0), &[3., 2., 2.]), Some(2));
        let small = [3., 2.95, 2.9, 2.85, 2.8];
        assert_eq!((place(loss(), &small), place(loss().min_delta(0.5), &small)), (None, Some(3)));
        let accuracy = || EarlyStopping::new("accuracy", Mode::Max).patience(2);
        assert_eq!(place(accuracy(), &[0.1, 0.2, 0.1, 0.2]), Some(3));
        assert_eq!(place(accuracy().min_delta(0.1), &[0.1, 0.3, 0.35, 0.39]), Some(3));
    }

    #[test]
    fn thresholds_and_values_that_are_not_finite_end_it_at_once() {
        let loss = || EarlyStopping::new("loss", Mode::Min);
        assert_eq!(place(loss(), &[1., f64::NAN]), Some(1));
        assert_eq!(place(loss(), &[1., f64::INFINITY]), Some(1));
        assert_eq!(place(loss().check_finite(false), &[1., f64::NAN, 0.5, f64::NAN]), None);
        assert_eq!(place(loss().stopping_threshold(0.5), &[1., 0.5, 0.4]), Some(2));
        assert_eq!(place(loss().divergence_threshold(9.), &[1., 9., 10.]), Some(2));
        let accuracy = || EarlyStopping::new("accuracy", Mode::Max);
        assert_eq!(place(accuracy().stopping_threshold(0.9), &[0.1, 0.95]), Some(1));
        assert_eq!(place(accuracy().divergence_threshold(0.2), &[0.3, 0.1]), Some(1));
        let (_, reason) = stops(loss().patience(1), &[3., 4.]).expect("stopped");
        assert_eq!(reason, "loss did not improve on 3 in 1 checks");
    }

    #[test]
    fn its_state_is_restored() {
        let mut before = EarlyStopping::new("loss", Mode::Min);
        assert_eq!([3., 2., 2., 2.].map(|value| before.reason_to_stop(value)), [const { None }; 4]);
        let mut after = EarlyStopping::new("loss", Mode::Min);
        after.restore(&before.saved()).expect("its own");
        assert!(after.reason_to_stop(2.).is_some());
        after.restore(&EarlyStopping::new("loss", Mode::Min).saved()).expect("infinite");
        assert_eq!(after.best, f64::INFINITY);
    }
}
