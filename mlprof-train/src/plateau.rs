//! Learning rate schedule that lowers the rate when a metric no longer improves.

use super::error::Result;
use super::mode::Mode;
use super::saved_state::SavedState;

/// Multiplies the learning rate by a factor when a metric has not improved for some epochs. It is
/// PyTorch's `ReduceLROnPlateau` with the same defaults.
///
/// # Examples
///
/// ```no_run
/// use mlprof_train::{LrInterval, Mode, Optimizers, ReduceLrOnPlateau, TrainOptimizer};
///
/// fn optimizers<O: TrainOptimizer>(optimizer: O) -> Optimizers<O> {
///     let schedule = ReduceLrOnPlateau::new(Mode::Min).factor(0.5).patience(3);
///     Optimizers::new(optimizer).reduce_on_plateau(LrInterval::Epoch, "val_loss", schedule)
/// }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ReduceLrOnPlateau {
    mode: Mode,
    factor: f64,
    patience: usize,
    threshold: Threshold,
    cooldown: usize,
    min_rate: f64,
    best: f64,
    bad: usize,
    cooling: usize,
}

/// Least difference from the best value that is an improvement.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Threshold {
    Relative(f64),
    Absolute(f64),
}

/// Minimum change of the rate; smaller changes are not applied.
const SMALLEST_CHANGE: f64 = 1e-8;

impl ReduceLrOnPlateau {
    /// Lowers the rate to a tenth after 10 values of the metric that are not better, by `mode`,
    /// than the best one.
    pub const fn new(mode: Mode) -> Self {
        Self {
            mode,
            factor: 0.1,
            patience: 10,
            threshold: Threshold::Relative(1e-4),
            cooldown: 0,
            min_rate: 0.0,
            best: mode.worst(),
            bad: 0,
            cooling: 0,
        }
    }

    /// Sets the factor for the rate, below 1. The default is 0.1.
    #[must_use]
    pub const fn factor(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    /// Sets how many values in a row may fail to improve; the next such value lowers the rate. The
    /// default is 10.
    #[must_use]
    pub const fn patience(mut self, values: usize) -> Self {
        self.patience = values;
        self
    }

    /// Sets the minimum improvement, as a share of the best value. The default is 0.0001.
    #[must_use]
    pub const fn threshold(mut self, share: f64) -> Self {
        self.threshold = Threshold::Relative(share);
        self
    }

    /// Sets the minimum improvement, as a difference from the best value.
    #[must_use]
    pub const fn absolute_threshold(mut self, difference: f64) -> Self {
        self.threshold = Threshold::Absolute(difference);
        self
    }

    /// Sets how many values after a reduction do not count as failures to improve. The default
    /// is 0.
    #[must_use]
    pub const fn cooldown(mut self, values: usize) -> Self {
        self.cooldown = values;
        self
    }

    /// Sets the minimum rate. The default is 0.
    #[must_use]
    pub const fn min_rate(mut self, rate: f64) -> Self {
        self.min_rate = rate;
        self
    }

    /// Returns the state for a checkpoint.
    pub(super) fn state(&self) -> SavedState {
        let mut state = SavedState::new();
        state.set("best", self.best);
        state.set("bad", self.bad);
        state.set("cooling", self.cooling);
        state
    }

    /// Restores a state that [`state`](Self::state) returned.
    pub(super) fn load_state(&mut self, state: &SavedState) -> Result<()> {
        (self.best, self.bad, self.cooling) =
            (state.get("best")?, state.get("bad")?, state.get("cooling")?);
        Ok(())
    }

    /// Processes the next value of the metric and returns the new rate if it changes.
    pub(super) fn step(&mut self, metric: f64, rate: f64) -> Option<f64> {
        if self.is_better(metric) {
            self.best = metric;
            self.bad = 0;
        } else {
            self.bad += 1;
        }
        if self.cooling > 0 {
            self.cooling -= 1;
            self.bad = 0;
        }
        if self.bad <= self.patience {
            return None;
        }
        self.cooling = self.cooldown;
        self.bad = 0;
        let lower = (rate * self.factor).max(self.min_rate);
        (rate - lower > SMALLEST_CHANGE).then_some(lower)
    }

    fn is_better(&self, metric: f64) -> bool {
        let best = match (self.threshold, self.mode) {
            (Threshold::Relative(share), Mode::Min) => self.best * (1.0 - share),
            (Threshold::Relative(share), Mode::Max) => self.best * (1.0 + share),
            (Threshold::Absolute(difference), Mode::Min) => self.best - difference,
            (Threshold::Absolute(difference), Mode::Max) => self.best + difference,
        };
        self.mode.is_better(metric, best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(mut schedule: ReduceLrOnPlateau, metrics: &[f64]) -> Vec<f64> {
        let mut rate = 1.0;
        let step = |metric: &f64| {
            rate = schedule.step(*metric, rate).unwrap_or(rate);
            rate
        };
        metrics.iter().map(step).collect()
    }

    /// Compares with the rates that `torch.optim.lr_scheduler.ReduceLROnPlateau` of PyTorch 2.9
    /// sets.
    #[test]
    fn rates_are_those_of_pytorch() {
        let lower = ReduceLrOnPlateau::new(Mode::Min).factor(0.5).patience(1);
        let losses = [1.0, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.6, 0.6];
        let expected = [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125];
        assert_eq!(rates(lower.clone(), &losses), expected);
        // A rate that would fall below the minimum stays at the minimum.
        let bounded = rates(lower.clone().min_rate(0.4), &losses);
        assert_eq!(bounded, [1.0, 1.0, 1.0, 0.5, 0.5, 0.4, 0.4, 0.4, 0.4]);
        let cooled = rates(lower.clone().cooldown(2), &losses);
        assert_eq!(cooled, [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25]);
        // A change of less than a ten-thousandth, or NaN, does not count as an improvement.
        assert_eq!(rates(lower.clone(), &[1.0, 0.99995, 0.9999]), [1.0, 1.0, 0.5]);
        assert_eq!(rates(lower.clone(), &[1.0, f64::NAN, f64::NAN]), [1.0, 1.0, 0.5]);
        let higher =
            ReduceLrOnPlateau::new(Mode::Max).factor(0.5).patience(0).absolute_threshold(0.1);
        assert_eq!(rates(higher, &[0.5, 0.55, 0.7, 0.6]), [1.0, 0.5, 0.5, 0.25]);
    }
}
