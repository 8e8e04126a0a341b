//! Between which limits the numbers of a run, and of several runs, are known.

use super::{Limits, Measured, Unit};
use crate::confidence::{FEWEST, median_shares};

/// So many runs show how runs vary.
const FEWEST_RUNS: usize = 3;
/// A run is cut into so many parts, to see whether it drifts.
const PARTS: usize = 10;
/// A time of one run is known no better than within this: where memory happens to lie, and how warm the
/// machine is, differ from run to run.
const LEAST_OF_A_TIME: f64 = 0.02;
/// What is counted is the same in equal runs, but for what threads do by chance.
const COUNTED: f64 = 0.005;

/// How well a number of one run is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Spread {
    /// Between limits.
    Known(Limits),
    /// There are too few calls.
    TooFew,
    /// The report does not say how calls vary.
    NotRecorded,
}

/// A number of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Of a typical call or step.
    pub(super) value: f64,
    pub(super) spread: Spread,
    /// So many calls there were.
    pub(super) calls: u64,
    /// The part of the run that it is, 0 to 1.
    pub(super) share: f64,
}

impl Sample {
    /// A number of which nothing else is known.
    pub(super) fn alone(value: f64, calls: u64, share: f64) -> Self {
        Self { value, spread: Spread::NotRecorded, calls, share }
    }

    /// Something that is counted, and not measured.
    pub(super) fn counted(value: f64, calls: u64, share: f64) -> Self {
        Self::within(value, value.abs() * COUNTED, calls, share)
    }

    /// A number that is known within so much.
    pub(super) fn within(value: f64, uncertainty: f64, calls: u64, share: f64) -> Self {
        let limits = Limits { low: value - uncertainty, high: value + uncertainty };
        Self { value, spread: Spread::Known(limits), calls, share }
    }

    /// The median of these numbers, which stand in the order of time. `None` without any.
    pub(super) fn of_series(numbers: &[f64], share: f64) -> Option<Self> {
        let value = quantile(numbers, 0.5)?;
        let calls = numbers.len() as u64;
        let Some((below, above)) = median_shares(calls) else {
            return Some(Self { value, spread: Spread::TooFew, calls, share });
        };
        let by_order = [quantile(numbers, below), quantile(numbers, above)];
        let drift = Limits::of_drift(numbers);
        let all = drift.into_iter().flat_map(|drift| [drift.low, drift.high]);
        let limits = Limits::around(all.chain(by_order.into_iter().flatten()));
        let limits = limits.unwrap_or(Limits { low: value, high: value });
        Some(Self { value, spread: Spread::Known(limits), calls, share })
    }

    /// Rows of one name as one.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let spread = match (self.spread, other.spread) {
            (Spread::Known(one), Spread::Known(other)) => {
                Spread::Known(Limits { low: one.low + other.low, high: one.high + other.high })
            }
            (Spread::TooFew, _) | (_, Spread::TooFew) => Spread::TooFew,
            _ => Spread::NotRecorded,
        };
        Self {
            value: self.value + other.value,
            spread,
            calls: self.calls.max(other.calls),
            share: (self.share + other.share).min(1.0),
        }
    }
}

impl Limits {
    /// Between which the medians of the parts of a run are, of numbers in the order of time.
    pub(super) fn of_drift(numbers: &[f64]) -> Option<Self> {
        let part = numbers.len().div_ceil(PARTS).max(FEWEST as usize);
        // The last part may be too short to say anything.
        let parts = numbers.chunks(part).filter(|part| part.len() >= FEWEST as usize);
        Self::around(parts.filter_map(|part| quantile(part, 0.5)))
    }

    /// From the least to the greatest; `None` of nothing.
    fn around(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        numbers.into_iter().fold(None, |limits, number| {
            let Self { low, high } = limits.unwrap_or(Self { low: number, high: number });
            Some(Self { low: low.min(number), high: high.max(number) })
        })
    }

    fn times(self, factor: f64) -> Self {
        Self { low: self.low * factor, high: self.high * factor }
    }
}

impl Measured {
    /// Of the runs of one side; `None` without any.
    pub(super) fn of(runs: &[Sample], unit: Unit) -> Option<Self> {
        let values: Vec<f64> = runs.iter().map(|run| run.value).collect();
        let calls = runs.iter().map(|run| run.calls as f64).sum::<f64>() / runs.len() as f64;
        let value = quantile(&values, 0.5)?;
        let least = match unit {
            Unit::Seconds if runs.len() < FEWEST_RUNS => LEAST_OF_A_TIME * value,
            _ => 0.0,
        };
        let limits = limits_of(runs).map(|limits| Limits {
            low: limits.low.min(value - least),
            high: limits.high.max(value + least),
        });
        Some(Self { value, limits, calls })
    }

    /// The same for so many times as much.
    pub(super) fn times(self, factor: f64) -> Self {
        let limits = self.limits.map(|limits| limits.times(factor));
        Self { value: self.value * factor, limits, ..self }
    }
}

/// Of several runs: around the limits of each, and around the runs themselves.
fn limits_of(runs: &[Sample]) -> Option<Limits> {
    let known = runs.iter().filter_map(|run| match run.spread {
        Spread::Known(limits) => Some(limits),
        Spread::TooFew | Spread::NotRecorded => None,
    });
    let known: Vec<Limits> = known.collect();
    let within = match known.len() == runs.len() {
        true => Limits::around(known.iter().flat_map(|limits| [limits.low, limits.high])),
        false => None,
    };
    let between = match runs.len() >= FEWEST_RUNS {
        true => Limits::around(runs.iter().map(|run| run.value)).map(|limits| {
            let beyond = (limits.high - limits.low) / (runs.len() - 2) as f64;
            Limits { low: limits.low - beyond, high: limits.high + beyond }
        }),
        false => None,
    };
    Limits::around(within.into_iter().chain(between).flat_map(|limits| [limits.low, limits.high]))
}

/// What so many of the numbers do not exceed; `None` without any. In the middle between two the mean.
pub(super) fn quantile(numbers: &[f64], share: f64) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = (share * sorted.len() as f64 - 0.5).clamp(0.0, last as f64);
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_drifts_is_known_less_well() {
        let steady: Vec<f64> = (0..200).map(|step| 1.0 + f64::from(step % 7) / 100.0).collect();
        let drifting: Vec<f64> = (0..200).map(|step| 1.0 + f64::from(step) / 1e3).collect();
        let steady = limits(&Sample::of_series(&steady, 1.0).expect("steps"));
        assert!(steady.high - steady.low < 0.03, "{steady:?}");
        let drifting = limits(&Sample::of_series(&drifting, 1.0).expect("steps"));
        assert!(drifting.low < 1.02 && drifting.high > 1.18, "{drifting:?}");
    }

    #[test]
    fn few_steps_say_nothing() {
        assert_eq!(Sample::of_series(&[], 1.0), None);
        let few = Sample::of_series(&[1.0; 7], 1.0).expect("steps");
        assert_eq!((few.value, few.spread, few.calls), (1.0, Spread::TooFew, 7));
        let enough = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let enough = Sample::of_series(&enough, 1.0).expect("steps");
        assert_eq!(limits(&enough), Limits { low: 1.0, high: 8.0 }, "all of them");
    }

    fn limits(sample: &Sample) -> Limits {
        match sample.spread {
            Spread::Known(limits) => limits,
            other => panic!("{other:?}"),
        }
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

    #[test]
    fn runs_are_the_yardstick_where_there_are_three() {
        let one = |value| Sample::alone(value, 10, 0.5);
        let measured = |runs: &[Sample]| Measured::of(runs, Unit::Seconds).expect("runs");
        assert_eq!(measured(&[one(1.0), one(2.0)]).limits, None);
        let three = measured(&[one(1.0), one(3.0), one(2.0)]);
        assert_eq!((three.value, three.limits), (2.0, Some(Limits { low: -1.0, high: 5.0 })));
        let five = measured(&[one(1.0), one(2.0), one(3.0), one(4.0), one(4.0)]);
        assert_eq!(five.limits, Some(Limits { low: 0.0, high: 5.0 }));
        // What each run says of itself counts, too, and of two runs it is all that there is.
        let known = |value| Sample::within(value, 0.25, 10, 0.5);
        let two = measured(&[known(1.0), known(2.0)]);
        assert_eq!(two.limits, Some(Limits { low: 0.75, high: 2.25 }));
        let wide = |value| Sample::within(value, 9.0, 10, 0.5);
        let three = measured(&[wide(1.0), wide(1.0), wide(1.0)]);
        assert_eq!(three.limits, Some(Limits { low: -8.0, high: 10.0 }));
    }

    #[test]
    fn a_time_of_one_run_is_never_known_to_a_hair() {
        let exact = [Sample::within(100.0, 0.0, 1_000_000, 1.0)];
        let limits = |unit| Measured::of(&exact, unit).expect("a run").limits;
        assert_eq!(limits(Unit::Seconds), Some(Limits { low: 98.0, high: 102.0 }));
        assert_eq!(limits(Unit::Bytes), Some(Limits { low: 100.0, high: 100.0 }));
        let three = [exact[0]; 3];
        let measured = Measured::of(&three, Unit::Seconds).expect("runs");
        assert_eq!(measured.limits, Some(Limits { low: 100.0, high: 100.0 }), "they say so");
    }
}
