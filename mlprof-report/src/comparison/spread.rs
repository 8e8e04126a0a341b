//! Numbers of one run and their uncertainty.

use super::dependence::Dependence;
use super::uncertainty::{FAR, Uncertainty};
use crate::confidence::FEWEST;
use crate::steps::{DurationBucket, StepSeries, durations};

/// Number of parts that a run is cut into to detect drift.
const PARTS: usize = 10;
/// Quantile above which steps count as slow.
const SLOW: f64 = 0.95;
/// Number of standard errors that chance alone does not exceed.
const BY_CHANCE: f64 = 3.0;
/// Factor that widens the drift. A drifting value is further off at the beginning and the end of a
/// run than the medians of the first and last part.
const FURTHER: f64 = 1.25;
/// Relative uncertainty of counts. They are equal in equal runs, except for random effects of
/// threads.
const COUNTED: f64 = 0.005;

/// Uncertainty of a number of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spread {
    /// The uncertainty is known.
    Known(Uncertainty),
    /// There are too few calls.
    TooFew,
    /// The report does not record how calls vary.
    NotRecorded,
    /// The value depends on a few calls only, so even several runs cannot show how it varies.
    OfFewCalls,
}

/// A number of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Value of a typical call or step.
    pub(super) value: f64,
    pub(super) spread: Spread,
    /// Number of calls.
    pub(super) calls: u64,
    /// Share of the run, 0 to 1.
    pub(super) share: f64,
}

impl Sample {
    /// Creates a number with unknown variation.
    pub(super) fn alone(value: f64, calls: u64, share: f64) -> Self {
        Self { value, spread: Spread::NotRecorded, calls, share }
    }

    /// Creates a number that is counted and not measured.
    pub(super) fn counted(value: f64, calls: u64, share: f64) -> Self {
        Self::within(value, value.abs() * COUNTED, calls, share)
    }

    /// Creates a number with a fixed absolute `uncertainty`.
    pub(super) fn within(value: f64, uncertainty: f64, calls: u64, share: f64) -> Self {
        let part = if value > 0.0 { uncertainty / value } else { 0.0 };
        Self { value, spread: Spread::Known(Uncertainty::fixed(part)), calls, share }
    }

    /// Returns the median of numbers that are in chronological order. Returns `None` if there are
    /// none. `dependence` is that of the run. The dependence of the series itself applies if it is
    /// larger.
    pub(super) fn of_series(numbers: &[f64], share: f64, dependence: Dependence) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let value = quantile_of_sorted(&sorted, 0.5)?;
        let calls = numbers.len() as u64;
        if calls < FEWEST {
            return Some(Self { value, spread: Spread::TooFew, calls, share });
        }
        let dependence = dependence.max(Dependence::of([numbers]));
        let at = |share: f64| quantile_of_sorted(&sorted, share).unwrap_or(value);
        let uncertainty = of_median(value, at, calls, dependence, 1.0);
        let spread = Spread::Known(uncertainty.with_drift(numbers, value));
        Some(Self { value, spread, calls, share })
    }

    /// Returns the median of single steps from their histogram. It is used if several steps share
    /// an entry. `means` contains the mean of each entry, in chronological order.
    pub(super) fn of_histogram(
        single: &[DurationBucket],
        means: &[f64],
        share: f64,
        dependence: Dependence,
        factor: f64,
    ) -> Option<Self> {
        let value = durations::quantile(single, 0.5)?;
        let at = |share: f64| durations::quantile(single, share).unwrap_or(value);
        let calls = single.iter().map(|bucket| bucket.count).sum();
        let dependence = dependence.max(Dependence::of([means]));
        let uncertainty = of_median(value, at, calls, dependence, factor);
        let middle = quantile(means, 0.5)?;
        let spread = Spread::Known(uncertainty.with_drift(means, middle));
        Some(Self { value, spread, calls, share })
    }

    /// Returns the 95 % quantile of the steps. It requires enough steps so that the longest ones do
    /// not decide the result by chance.
    pub(super) fn of_slow_steps(
        series: &StepSeries,
        share: f64,
        dependence: Dependence,
        factor: f64,
    ) -> Option<Self> {
        let value = series.quantile(SLOW)?;
        let calls = series.steps;
        let error = factor * dependence.factor() * (SLOW * (1.0 - SLOW) / calls as f64).sqrt();
        let errors = FAR.min((1.0 - SLOW) / error);
        if errors < BY_CHANCE {
            return Some(Self { value, spread: Spread::OfFewCalls, calls, share });
        }
        let at = |share: f64| series.quantile(share).unwrap_or(value);
        let spread = Spread::Known(Uncertainty {
            below: log_ratio(at(SLOW - errors * error), value) / errors,
            above: log_ratio(value, at(SLOW + errors * error)) / errors,
            freedom: dependence.freedom(calls as f64 / (factor * factor)),
            ..Uncertainty::fixed(0.0)
        });
        Some(Self { value, spread, calls, share })
    }

    /// Adds a row with the same name to this one.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let sum = self.value + other.value;
        let part = if sum > 0.0 { self.value / sum } else { 0.5 };
        let spread = match (self.spread, other.spread) {
            (Spread::Known(one), Spread::Known(other)) => Spread::Known(one.mixed(&other, part)),
            (Spread::OfFewCalls, _) | (_, Spread::OfFewCalls) => Spread::OfFewCalls,
            (Spread::TooFew, _) | (_, Spread::TooFew) => Spread::TooFew,
            _ => Spread::NotRecorded,
        };
        Self {
            value: sum,
            spread,
            calls: self.calls.max(other.calls),
            share: (self.share + other.share).min(1.0),
        }
    }
}

/// Returns the uncertainty of a median of `count` numbers, based on their order alone. The count of
/// numbers below the true median follows a binomial distribution. Its standard deviation is
/// `factor` times larger if the numbers depend on each other.
fn of_median(
    value: f64,
    at: impl Fn(f64) -> f64,
    count: u64,
    dependence: Dependence,
    factor: f64,
) -> Uncertainty {
    let count = count as f64;
    let factor = factor * dependence.factor();
    // Limits far from the median serve verdicts over many rows. They must stay inside the range of
    // the numbers.
    let errors = FAR.min(count.sqrt() / factor);
    let shares = 0.5 * errors * factor / count.sqrt();
    let (low, high) = (at(0.5 - shares), at(0.5 + shares));
    Uncertainty {
        below: log_ratio(low, value) / errors,
        above: log_ratio(value, high) / errors,
        freedom: dependence.freedom(count / (factor / dependence.factor()).powi(2)),
        ..Uncertainty::fixed(0.0)
    }
}

/// Returns the logarithm of `high / low`, at least 0. Returns infinity if only `low` is 0.
fn log_ratio(low: f64, high: f64) -> f64 {
    match low > 0.0 {
        true => (high / low).ln().max(0.0),
        false if high > low => f64::INFINITY,
        false => 0.0,
    }
}

impl Uncertainty {
    /// Adds the largest distance between the median of a part of the run and the median of the
    /// whole run. `numbers` are in chronological order. Equal runs differ as much from each other
    /// as the parts of one run do. This was measured with 597 pairs of equal trainings of 0.1 s: 4
    /// pairs were reported as different by 5 %. Without this term, 34 pairs were reported.
    fn with_drift(self, numbers: &[f64], middle: f64) -> Self {
        let part = numbers.len().div_ceil(PARTS).max(FEWEST as usize);
        // The last part may be too short for a reliable median.
        let parts = numbers.chunks(part).filter(|part| part.len() >= FEWEST as usize);
        let medians: Vec<f64> = parts.filter_map(|part| quantile(part, 0.5)).collect();
        let mut drifting = self;
        for median in medians {
            let (below, above) = (log_ratio(median, middle), log_ratio(middle, median));
            drifting.drift_below = drifting.drift_below.max(FURTHER * below);
            drifting.drift_above = drifting.drift_above.max(FURTHER * above);
        }
        drifting
    }
}

/// Returns the factor by which single steps are less independent than their shared entries suggest.
/// With independent steps, the deviation of entries equals that of steps divided by the square root
/// of the steps per entry.
pub(super) fn factor_of_entries(series: &StepSeries, means: &[f64]) -> f64 {
    let Some(durations) = &series.durations else { return 1.0 };
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count.max(1.0);
    let squares: f64 = means.iter().map(|entry| (entry - mean).powi(2)).sum();
    let of_entries = squares / (count - 1.0).max(1.0) * series.steps as f64 / count.max(1.0);
    let of_steps = durations.deviation_seconds.powi(2);
    if of_steps > 0.0 { (of_entries / of_steps).sqrt().max(1.0) } else { 1.0 }
}

/// Returns the quantile `share` of the numbers, or `None` if there are none. It interpolates
/// linearly between neighbouring numbers.
pub(super) fn quantile(numbers: &[f64], share: f64) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, share)
}

fn quantile_of_sorted(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = (share * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: fn() -> Dependence = || Dependence::of([]);

    fn known(sample: &Sample) -> Uncertainty {
        match sample.spread {
            Spread::Known(uncertainty) => uncertainty,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_that_drifts_is_known_less_well() {
        let steady: Vec<f64> = (0..200).map(|step| 1.0 + f64::from(step * 5 % 7) / 100.0).collect();
        let drifting: Vec<f64> = (0..200).map(|step| 1.0 + f64::from(step) / 1e3).collect();
        let limits = |numbers: &[f64]| {
            let sample = Sample::of_series(numbers, 1.0, NONE()).expect("steps");
            known(&sample).limits(sample.value)
        };
        let steady = limits(&steady);
        assert!(steady.high - steady.low < 0.03, "{steady:?}");
        let drifting = limits(&drifting);
        assert!(drifting.low < 1.02 && drifting.high > 1.18, "{drifting:?}");
    }

    #[test]
    fn few_steps_say_nothing() {
        assert_eq!(Sample::of_series(&[], 1.0, NONE()), None);
        let few = Sample::of_series(&[1.0; 7], 1.0, NONE()).expect("steps");
        assert_eq!((few.value, few.spread, few.calls), (1.0, Spread::TooFew, 7));
        let enough = [1.0, 8.0, 3.0, 6.0, 2.0, 5.0, 4.0, 7.0];
        let enough = Sample::of_series(&enough, 1.0, NONE()).expect("steps");
        let limits = known(&enough).limits(enough.value);
        assert!(limits.low < 1.1 && limits.high > 7.9, "all of them: {limits:?}");
    }

    #[test]
    fn numbers_that_depend_on_each_other_say_less() {
        // Each value lasts for ten steps.
        let slow: Vec<f64> =
            (0..400_u32).map(|step| 1.0 + f64::from(step / 10 * 7 % 10) / 100.0).collect();
        let fast: Vec<f64> =
            (0..400_u32).map(|step| 1.0 + f64::from(step * 7 % 10) / 100.0).collect();
        let [slow, fast] = [slow, fast]
            .map(|numbers| known(&Sample::of_series(&numbers, 1.0, NONE()).expect("steps")));
        assert!(slow.above > 2.0 * fast.above, "{slow:?} {fast:?}");
        assert!(slow.freedom < 0.5 * fast.freedom, "{slow:?} {fast:?}");
    }

    #[test]
    fn quantiles_lie_between_the_numbers() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.95), Some(3.0));
        assert_eq!(quantile(&[3.0, 1.0, 2.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[4.0, 1.0, 2.0, 3.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[1.0, 2.0], -3.0), Some(1.0));
        assert_eq!(quantile(&[1.0, 2.0], 7.0), Some(2.0));
    }
}
