//! Uncertainty of a number.

use super::Limits;
use super::dependence::Dependence;
use super::student;
use crate::confidence::SURE;

/// Distance from the median at which its standard error is measured, in standard errors. It matches
/// the limits of a verdict over some hundreds of rows.
pub(super) const FAR: f64 = 4.0;
/// Probability outside the limits on each side. The limits therefore contain 99 %.
const OUTSIDE: f64 = 0.005;

/// Uncertainty of a number. The errors are logarithms of ratios: 0.01 is about 1 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Uncertainty {
    /// Standard error towards smaller values.
    pub(super) below: f64,
    /// Standard error towards larger values.
    pub(super) above: f64,
    /// Degrees of freedom of the standard errors, for Student's t.
    pub(super) freedom: f64,
    /// Additional drift of the run towards smaller values.
    pub(super) drift_below: f64,
    /// Additional drift of the run towards larger values.
    pub(super) drift_above: f64,
    /// Minimum relative uncertainty.
    pub(super) least: f64,
}

impl Uncertainty {
    /// Creates a fixed relative uncertainty without a random part.
    pub(super) fn fixed(part: f64) -> Self {
        Self {
            below: 0.0,
            above: 0.0,
            freedom: f64::INFINITY,
            drift_below: 0.0,
            drift_above: 0.0,
            least: part,
        }
    }

    /// Derives the uncertainty of a value from its 99 % confidence limits and the number of calls.
    pub(super) fn of_limits(value: f64, limits: Limits, calls: u64) -> Self {
        let log = |ratio: f64| if ratio > 0.0 { ratio.ln().max(0.0) } else { f64::INFINITY };
        let (below, above) = (log(value / limits.low) / SURE, log(limits.high / value) / SURE);
        let freedom = calls.saturating_sub(1).max(1) as f64;
        Self { below, above, freedom, ..Self::fixed(0.0) }
    }

    /// Widens the uncertainty of calls by the dependence and the drift of the run's steps. `steps`
    /// is the uncertainty of the steps' median. An influence that slows steps for a while also
    /// slows everything that runs inside them.
    pub(super) fn in_run(self, dependence: Dependence, steps: Option<&Self>) -> Self {
        let factor = dependence.factor();
        // The common part is the error of the steps beyond that of independent steps.
        let common = (1.0 - 1.0 / (factor * factor)).sqrt();
        let common = |pick: fn(&Self) -> f64| steps.map_or(0.0, |steps| common * pick(steps));
        let drift = |pick: fn(&Self) -> f64| steps.map_or(0.0, pick);
        let own = factor * self.below.max(self.above);
        let of_steps = common(|steps| steps.below.max(steps.above));
        let of_own = (own, dependence.freedom(self.freedom + 1.0));
        let freedom = [of_own, (of_steps, steps.map_or(f64::INFINITY, |steps| steps.freedom))];
        Self {
            below: (factor * self.below).hypot(common(|steps| steps.below)),
            above: (factor * self.above).hypot(common(|steps| steps.above)),
            freedom: combined_freedom(freedom.into_iter()),
            drift_below: self.drift_below.max(drift(|steps| steps.drift_below)),
            drift_above: self.drift_above.max(drift(|steps| steps.drift_above)),
            ..self
        }
    }

    /// Returns the uncertainty of a sum of two numbers, in which this number is the fraction `own`.
    /// The two numbers are not assumed to vary independently.
    pub(super) fn mixed(&self, other: &Self, own: f64) -> Self {
        let mixed = |pick: fn(&Self) -> f64| own * pick(self) + (1.0 - own) * pick(other);
        Self {
            below: mixed(|it| it.below),
            above: mixed(|it| it.above),
            freedom: self.freedom.min(other.freedom),
            drift_below: mixed(|it| it.drift_below),
            drift_above: mixed(|it| it.drift_above),
            least: mixed(|it| it.least),
        }
    }

    /// Returns the uncertainty of the mean of several numbers.
    pub(super) fn of_mean(all: &[Self]) -> Option<Self> {
        let count = all.len() as f64;
        let greatest = |pick: fn(&Self) -> f64| all.iter().map(pick).fold(0.0, f64::max);
        let error = |pick: fn(&Self) -> f64| {
            all.iter().map(|it| pick(it).powi(2)).sum::<f64>().sqrt() / count
        };
        let freedom = all.iter().map(|it| (it.below.max(it.above), it.freedom));
        (!all.is_empty()).then(|| Self {
            below: error(|it| it.below),
            above: error(|it| it.above),
            freedom: combined_freedom(freedom),
            drift_below: greatest(|it| it.drift_below),
            drift_above: greatest(|it| it.drift_above),
            least: greatest(|it| it.least),
        })
    }

    /// Returns the confidence limits of `value` at 99 %.
    pub(super) fn limits(&self, value: f64) -> Limits {
        let below = errors(OUTSIDE, self.freedom, self.below) + self.drift_below;
        let above = errors(OUTSIDE, self.freedom, self.above) + self.drift_above;
        Limits {
            low: (value * (-below).exp()).min(value * (1.0 - self.least)),
            high: (value * above.exp()).max(value * (1.0 + self.least)),
        }
    }
}

/// Returns `error` times the quantile of Student's t for the probability `tail`.
pub(super) fn errors(tail: f64, freedom: f64, error: f64) -> f64 {
    // Without an error, the degrees of freedom do not matter.
    if error > 0.0 { error * student::quantile(tail, freedom) } else { 0.0 }
}

/// Returns the Welch-Satterthwaite degrees of freedom of a sum of independent errors.
pub(super) fn combined_freedom(all: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut squares, mut fourths) = (0.0, 0.0);
    for (error, freedom) in all.filter(|(error, _)| error.is_finite()) {
        squares += error.powi(2);
        fourths += error.powi(4) / freedom;
    }
    if fourths > 0.0 { squares * squares / fourths } else { f64::INFINITY }
}
