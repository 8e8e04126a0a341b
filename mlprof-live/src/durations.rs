//! Histogram of durations with the two kinds of Prometheus buckets: classic and native.

use std::collections::BTreeMap;

/// Schema of the native histogram: eight buckets per power of two. Durations in the same bucket
/// differ by at most 9.1 %.
pub(crate) const SCHEMA: i32 = 3;

/// Shorter durations, in seconds, are counted in the zero bucket. The value is Prometheus' default.
pub(crate) const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// Upper bounds of the classic buckets in seconds.
pub(crate) const BOUNDS: [f64; 25] = [
    1e-6, 2.5e-6, 5e-6, 1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2,
    5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0,
];

/// Histogram of durations in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Durations {
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) zeros: u64,
    /// Counts by native bucket index; the upper bound of a bucket is 2^(index / 8) seconds.
    pub(crate) native: BTreeMap<i32, u64>,
    /// Number of durations in each classic bucket, not cumulative. Durations above the last bound
    /// are in no bucket.
    classic: [u64; BOUNDS.len()],
}

impl Durations {
    /// Adds one duration.
    pub(crate) fn add(&mut self, seconds: f64) {
        self.sum += seconds;
        self.count_at(seconds, 1);
    }

    /// Adds `times` durations of about `seconds` to the counts. The caller must add the exact sum.
    pub(crate) fn count_at(&mut self, seconds: f64, times: u64) {
        self.count += times;
        if seconds <= ZERO_THRESHOLD {
            self.zeros += times;
        } else {
            let number = (seconds.log2() * f64::from(1 << SCHEMA)).ceil() as i32;
            *self.native.entry(number).or_default() += times;
        }
        if let Some(place) = BOUNDS.iter().position(|bound| seconds <= *bound) {
            self.classic[place] += times;
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.zeros += other.zeros;
        for (number, count) in &other.native {
            *self.native.entry(*number).or_default() += count;
        }
        self.classic.iter_mut().zip(other.classic).for_each(|(own, count)| *own += count);
    }

    /// Returns each bound of [`BOUNDS`] with the number of durations that do not exceed it.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        BOUNDS.iter().zip(self.classic).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_bucket_that_prometheus_looks_for_it_in() {
        let mut durations = Durations::default();
        for seconds in [1.0, 1.05, 2.0, 0.5, 0.0, 1000.0] {
            durations.add(seconds);
        }
        // Bucket intervals: (2^((number - 1) / 8), 2^(number / 8)]
        let expected = BTreeMap::from([(-8, 1), (0, 1), (1, 1), (8, 1), (80, 1)]);
        assert_eq!((durations.native.clone(), durations.zeros), (expected, 1));
        assert_eq!((durations.count, durations.sum), (6, 1004.55));
        let cumulative: Vec<_> = durations.cumulative().collect();
        let at = |bound| cumulative.iter().find(|(known, _)| *known == bound).expect("a bound").1;
        assert_eq!((at(1e-6), at(0.5), at(1.0), at(2.5), at(100.0)), (1, 2, 3, 5, 5));
        let mut twice = durations.clone();
        twice.merge(&durations);
        assert_eq!(
            (twice.count, twice.native[&8], twice.cumulative().last()),
            (12, 2, Some((100.0, 10)))
        );
    }
}
