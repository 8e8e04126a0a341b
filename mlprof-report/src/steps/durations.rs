//! Histograms of single steps, for series in which several steps share an entry.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{PARTS, StepEntry};

/// Number of mantissa bits in a bucket's key. Durations in one bucket therefore differ by less than
/// 1/64.
const MANTISSA_BITS: u32 = 6;

/// Histograms of the durations of single steps and of their parts. A series has them if steps share
/// entries, because entries contain only sums.
///
/// Buckets are 1.6 % wide and store the sum of their durations, so quantiles are within 1.6 % of
/// the exact values. *Memory*: up to 24 bytes for each non-empty bucket, with some hundreds of
/// buckets.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepDurations {
    /// Histogram of whole steps, in ascending order of duration.
    pub seconds: Vec<DurationBucket>,
    /// Histograms of the parts in the order of [`StepEntry`]: data, forward, backward, collectives,
    /// optimizer, other.
    pub parts: Vec<Vec<DurationBucket>>,
    /// Standard deviation of the step duration, in seconds.
    pub deviation_seconds: f64,
}

/// Bucket of durations that differ by less than 1.6 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DurationBucket {
    /// Number of durations.
    pub count: u64,
    /// Sum of the durations in seconds.
    pub seconds: f64,
}

impl StepDurations {
    /// Creates histograms from entries with one step each.
    pub(super) fn of(entries: &[StepEntry]) -> Self {
        let mut all = Histograms::default();
        for entry in entries {
            all.add(entry.seconds, PARTS.map(|(_, part)| part(entry)));
        }
        all.durations(|number| number)
    }

    /// Returns the histogram of the part with this index in [`PARTS`].
    pub(crate) fn part(&self, place: usize) -> &[DurationBucket] {
        self.parts.get(place).map_or(&[], Vec::as_slice)
    }
}

/// Returns the quantile `share` (0 to 1) of the durations, in seconds. The result is the mean of
/// its bucket. Returns `None` without durations.
pub(crate) fn quantile(buckets: &[DurationBucket], share: f64) -> Option<f64> {
    let all: u64 = buckets.iter().map(|bucket| bucket.count).sum();
    let wanted = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
    let mut seen = 0;
    buckets.iter().find_map(|bucket| {
        seen += bucket.count;
        (seen >= wanted).then(|| bucket.seconds / bucket.count.max(1) as f64)
    })
}

/// Histogram of non-negative numbers, keyed by the leading bits of their floats. Values are count
/// and sum.
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
    /// Sum of the squared deviations from the mean.
    squares: f64,
}

impl Histograms {
    /// Adds one step.
    pub(super) fn add(&mut self, whole: f64, parts: [f64; PARTS.len()]) {
        self.whole.add(whole);
        self.parts.iter_mut().zip(parts).for_each(|(histogram, part)| histogram.add(part));
        self.count += 1;
        let beyond = whole - self.mean;
        self.mean += beyond / self.count as f64;
        self.squares += beyond * (whole - self.mean);
    }

    /// Converts the histograms into seconds with the function `seconds`.
    pub(super) fn durations(&self, seconds: impl Fn(f64) -> f64) -> StepDurations {
        let deviation = (self.squares / self.count.saturating_sub(1).max(1) as f64).sqrt();
        StepDurations {
            seconds: self.whole.buckets(&seconds),
            parts: self.parts.iter().map(|part| part.buckets(&seconds)).collect(),
            deviation_seconds: seconds(deviation),
        }
    }
}
