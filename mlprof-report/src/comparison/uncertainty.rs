//! How well a number is known.

use super::Limits;
use super::dependence::Dependence;
use super::student;
use crate::confidence::SURE;

/// The distance from the median at which its standard error is measured, in standard errors: that
/// of a verdict over some hundreds of rows.
pub(super) const FAR: f64 = 4.0;
/// On each side of limits: together with what lies between them 99 %.
const OUTSIDE: f64 = 0.005;

/// How well a number is known. All are logarithms of ratios: 0.01 is about 1 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Uncertainty {
    /// The standard error towards less.
    pub(super) below: f64,
    /// The standard error towards more.
    pub(super) above: f64,
    /// How well the standard errors are known, in Student's degrees of freedom.
    pub(super) freedom: f64,
    /// Besides, what the run drifted towards less.
    pub(super) drift_below: f64,
    /// Besides, what the run drifted towards more.
    pub(super) drift_above: f64,
    /// It is known no better than within this.
    pub(super) least: f64,
}

impl Uncertainty {
    /// Within such a part of it, without chance.
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

    /// Of a value that lies between limits with a confidence of 99 %, by so many calls.
    pub(super) fn of_limits(value: f64, limits: Limits, calls: u64) -> Self {
        let log = |ratio: f64| if ratio > 0.0 { ratio.ln().max(0.0) } else { f64::INFINITY };
        let (below, above) = (log(value / limits.low) / SURE, log(limits.high / value) / SURE);
        let freedom = calls.saturating_sub(1).max(1) as f64;
        Self { below, above, freedom, ..Self::fixed(0.0) }
    }

    /// Of calls in a run whose steps depend on each other and drift. `steps`: how well their median
    /// is known. What makes steps slower for a while makes whatever runs in them slower.
    pub(super) fn in_run(self, dependence: Dependence, steps: Option<&Self>) -> Self {
        let factor = dependence.factor();
        // What the error of steps is beyond that of independent ones.
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

    /// Of a sum of two numbers, of which this one's is the part `own`. Nothing says that they vary
    /// apart.
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

    /// Of the mean of several.
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

    /// Between which a value lies with a confidence of 99 %.
    pub(super) fn limits(&self, value: f64) -> Limits {
        let below = errors(OUTSIDE, self.freedom, self.below) + self.drift_below;
        let above = errors(OUTSIDE, self.freedom, self.above) + self.drift_above;
        Limits {
            low: (value * (-below).exp()).min(value * (1.0 - self.least)),
            high: (value * above.exp()).max(value * (1.0 + self.least)),
        }
    }
}

/// So many standard errors as t exceeds with this probability.
pub(super) fn errors(tail: f64, freedom: f64, error: f64) -> f64 {
    // Without an error it does not matter how well that is known.
    if error > 0.0 { error * student::quantile(tail, freedom) } else { 0.0 }
}

/// Welch's degrees of freedom of a sum, of errors with theirs.
pub(super) fn combined_freedom(all: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut squares, mut fourths) = (0.0, 0.0);
    for (error, freedom) in all.filter(|(error, _)| error.is_finite()) {
        squares += error.powi(2);
        fourths += error.powi(4) / freedom;
    }
    if fourths > 0.0 { squares * squares / fourths } else { f64::INFINITY }
}
