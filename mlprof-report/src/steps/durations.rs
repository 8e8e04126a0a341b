//! Histograms of single steps, for series whose entries are shared by several steps.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{PARTS, StepEntry};

/// Durations in one bucket differ by less than 1/64: so many bits of a float's mantissa are its
/// key.
const MANTISSA_BITS: u32 = 6;

/// How long the single steps of a series took, and what their time went into, each as a histogram.
/// A series has it where steps share entries, which have only their sums.
///
/// Buckets are 1.6 % wide, and each has the sum of its durations, so that quantiles are within 1.6
/// % of the exact ones. *Memory*: up to 24 bytes for each bucket that is not empty, some hundreds.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepDurations {
    /// The whole steps, the shortest first.
    pub seconds: Vec<DurationBucket>,
    /// The parts in the order of [`StepEntry`]: data, forward, backward, collectives, optimizer,
    /// other.
    pub parts: Vec<Vec<DurationBucket>>,
    /// Standard deviation of the duration of a step, in seconds.
    pub deviation_seconds: f64,
}

/// Durations that differ by less than 1.6 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DurationBucket {
    /// How many.
    pub count: u64,
    /// Their sum, in seconds.
    pub seconds: f64,
}

impl StepDurations {
    /// Of entries of one step each.
    pub(super) fn of(entries: &[StepEntry]) -> Self {
        let mut all = Histograms::default();
        for entry in entries {
            all.add(entry.seconds, PARTS.map(|(_, part)| part(entry)));
        }
        all.durations(|number| number)
    }

    /// The part of that place in [`PARTS`].
    pub(crate) fn part(&self, place: usize) -> &[DurationBucket] {
        self.parts.get(place).map_or(&[], Vec::as_slice)
    }
}

/// Returns the duration that `share` (0 to 1) of those in the buckets do not exceed, in seconds:
/// the mean of its bucket. `None` without any.
pub(crate) fn quantile(buckets: &[DurationBucket], share: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let wanted = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
    let mut seen = 0;
    buckets.iter().find_map(|bucket| {
        seen += bucket.count;
        (seen >= wanted).then(|| bucket.seconds / bucket.count.max(1) as f64)
    })
}

/// Numbers that are not negative, by the leading bits of their floats: count and sum.
#[derive(Debug, Clone, Default)]
struct Histogram(BTreeMap<u64, (u64, f64)>);

impl Histogram {
    fn add(&mut self, number: f64) {
        let key = number.max(0.0).to_bits() >> (f64::MANTISSA_DIGITS - 1 - MANTISSA_BITS);
        let (count, sum) = self.0.entry(key).or_default();
        *count += 1;
        *sum += number;
    }

    fn buckets(&self, seconds: impl Fn(f64) -> f64) -> Vec<DurationBucket> {
        let bucket =
            |(count, sum): &(u64, f64)| DurationBucket { count: *count, seconds: seconds(*sum) };
        self.0.values().map(bucket).collect()
    }
}

/// Histograms of steps and of their parts, in any unit.
#[derive(Debug, Clone, Default)]
pub(super) struct Histograms {
    whole: Histogram,
    parts: [Histogram; PARTS.len()],
    count: u64,
    mean: f64,
    /// Sum of the squares of what differs from the mean.
    squares: f64,
}

impl Histograms {
    /// Counts one step.
    pub(super) fn add(&mut self, whole: f64, parts: [f64; PARTS.len()]) {
        self.whole.add(whole);
        self.parts.iter_mut().zip(parts).for_each(|(histogram, part)| histogram.add(part));
        self.count += 1;
        let beyond = whole - self.mean;
        self.mean += beyond / self.count as f64;
        self.squares += beyond * (whole - self.mean);
    }

    /// The same in seconds, as `seconds` makes them of the unit.
    pub(super) fn durations(&self, seconds: impl Fn(f64) -> f64) -> StepDurations {
        let deviation = (self.squares / self.count.saturating_sub(1).max(1) as f64).sqrt();
        StepDurations {
            seconds: self.whole.buckets(&seconds),
            parts: self.parts.iter().map(|part| part.buckets(&seconds)).collect(),
            deviation_seconds: seconds(deviation),
        }
    }
}
