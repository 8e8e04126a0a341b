//! Combines the runs of one side.

use super::spread::{Sample, Spread, quantile};
use super::uncertainty::{Uncertainty, errors};
use super::{Limits, Measured, Unit};

/// Minimum number of runs that shows the variation between runs.
const FEWEST_RUNS: usize = 3;
/// Minimum relative uncertainty of a time with fewer runs. The memory layout and the machine's
/// temperature differ from run to run.
const LEAST_OF_A_TIME: f64 = 0.02;

/// Combined value of the runs of one side that have a row.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) measured: Measured,
    /// Uncertainty of the value within the runs. `None` if the calls of any run do not provide one.
    pub(super) within: Option<Uncertainty>,
    /// `true` if a run has too few calls.
    pub(super) has_too_few: bool,
    /// `true` if the value depends on a few calls only. Then several runs cannot judge it either.
    pub(super) is_of_few_calls: bool,
    /// Mean of the logarithms of the runs' values.
    pub(super) mean: f64,
    /// Logarithm of the ratio between the largest and the smallest run.
    pub(super) range: f64,
    /// Minimum relative uncertainty of the value.
    pub(super) least: f64,
    /// Sum of the squared deviations of the logarithms from their mean.
    squares: f64,
    runs: usize,
    lowest: f64,
    highest: f64,
}

impl Side {
    /// Combines the runs. Returns `None` without runs.
    pub(super) fn of(runs: &[Sample], unit: Unit) -> Option<Self> {
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let value = quantile(&values, 0.5)?;
        let count = runs.len() as f64;
        let calls = runs.iter().map(|run| run.calls as f64).sum::<f64>() / count;
        let known = runs.iter().filter_map(|run| match run.spread {
            Spread::Known(uncertainty) => Some(uncertainty),
            Spread::TooFew | Spread::NotRecorded | Spread::OfFewCalls => None,
        });
        let known: Vec<Uncertainty> = known.collect();
        let within = Uncertainty::of_mean(&known).filter(|_| known.len() == runs.len());
        let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / count;
        let squares = logarithms.iter().map(|run| (run - mean).powi(2)).sum();
        let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(0.0, f64::max);
        let of_a_time = match unit {
            Unit::Seconds if runs.len() < FEWEST_RUNS => LEAST_OF_A_TIME,
            _ => 0.0,
        };
        let mut side = Self {
            measured: Measured { value, limits: None, calls },
            least: within.map_or(0.0, |within| within.least).max(of_a_time).min(0.99),
            within,
            has_too_few: runs.iter().any(|run| run.spread == Spread::TooFew),
            is_of_few_calls: runs.iter().any(|run| run.spread == Spread::OfFewCalls),
            mean,
            range: if lowest > 0.0 { (highest / lowest).ln() } else { 0.0 },
            squares,
            runs: runs.len(),
            lowest,
            highest,
        };
        side.measured.limits = side.limits();
        Some(side)
    }

    /// Returns `true` if there are enough runs to show the variation between runs.
    pub(super) fn are_several(&self) -> bool {
        self.runs >= FEWEST_RUNS
    }

    /// Returns `true` if the value is above 0 in every run.
    pub(super) fn is_positive(&self) -> bool {
        self.lowest > 0.0
    }

    /// Returns `true` if the value is 0 in every run.
    pub(super) fn is_nothing(&self) -> bool {
        self.highest <= 0.0
    }

    /// Returns `true` if the value differs between runs, or if its calls vary.
    pub(super) fn varies(&self) -> bool {
        let varies_within = |within: &Uncertainty| within.below.max(within.above) > 0.0;
        self.lowest < self.highest || self.within.as_ref().is_some_and(varies_within)
    }

    /// Returns the standard error of the difference between two sides, and its degrees of freedom.
    /// It is based on the variation between runs. The pooled variance applies, because equal
    /// programs vary equally on both sides. The separate variances apply if they give a larger
    /// error.
    pub(super) fn error_with(&self, other: &Self) -> (f64, f64) {
        let (one, two) = (self.runs as f64, other.runs as f64);
        let freedom = one + two - 2.0;
        let pooled = (self.squares + other.squares) / freedom * (1.0 / one + 1.0 / two);
        let apart = self.squares / (one - 1.0) / one + other.squares / (two - 1.0) / two;
        (pooled.max(apart).sqrt(), freedom)
    }

    /// Returns the confidence limits of the value at 99 %, for this side and this row alone.
    fn limits(&self) -> Option<Limits> {
        let runs = self.runs as f64;
        let uncertainty = match self.are_several() {
            true => {
                let error = (self.squares / (runs - 1.0) / runs).sqrt();
                let by_runs = Uncertainty {
                    below: error,
                    above: error,
                    freedom: runs - 1.0,
                    ..Uncertainty::fixed(0.0)
                };
                let wider = |within: &Uncertainty| {
                    errors(0.005, within.freedom, within.below.max(within.above))
                        > errors(0.005, by_runs.freedom, error)
                };
                let within = self.within.filter(wider);
                let no_drift = |within: Uncertainty| Uncertainty {
                    drift_below: 0.0,
                    drift_above: 0.0,
                    ..within
                };
                within.map_or(by_runs, no_drift)
            }
            false => {
                let within = self.within?;
                Uncertainty {
                    drift_below: within.drift_below + self.range,
                    drift_above: within.drift_above + self.range,
                    ..within
                }
            }
        };
        Some(Uncertainty { least: self.least, ..uncertainty }.limits(self.measured.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(runs: &[Sample], unit: Unit) -> Side {
        Side::of(runs, unit).expect("runs")
    }

    #[test]
    fn runs_are_the_yardstick_where_there_are_three() {
        let one = |value| Sample::alone(value, 10, 0.5);
        let seconds = |runs: &[Sample]| side(runs, Unit::Seconds);
        assert_eq!(seconds(&[one(1.0), one(2.0)]).measured.limits, None);
        let three = seconds(&[one(1.0), one(4.0), one(2.0)]);
        assert_eq!(three.measured.value, 2.0);
        // Neighbouring logarithms differ by 0.69. The t value for two degrees of freedom is 9.925.
        let limits = three.measured.limits.expect("they show it");
        let far = (9.925 * 2.0_f64.ln() / 3.0_f64.sqrt()).exp();
        assert!((limits.high / 2.0 / far - 1.0).abs() < 1e-3, "{limits:?} {far}");
        // Two runs combine their own uncertainties with the difference between them.
        let known = |value| Sample::within(value, 0.25, 10, 0.5);
        let limits = seconds(&[known(1.0), known(2.0)]).measured.limits.expect("each says so");
        assert!(limits.low <= 0.76 && limits.high >= 2.99, "{limits:?}");
    }

    #[test]
    fn a_time_of_one_run_is_never_known_to_a_hair() {
        let exact = [Sample::within(100.0, 0.0, 1_000_000, 1.0)];
        let limits = |unit| side(&exact, unit).measured.limits;
        assert_eq!(limits(Unit::Seconds), Some(Limits { low: 98.0, high: 102.0 }));
        assert_eq!(limits(Unit::Bytes), Some(Limits { low: 100.0, high: 100.0 }));
        let three = side(&[exact[0]; 3], Unit::Seconds).measured;
        assert_eq!(three.limits, Some(Limits { low: 100.0, high: 100.0 }), "they say so");
    }
}
