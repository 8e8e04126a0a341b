//! How durations are distributed, in a fixed number of buckets.

use crate::sync::Tally;

/// Buckets per power of two, as a power of two: durations in one bucket differ by at most 1/8.
#[cfg(not(loom))]
const SUB_BITS: u32 = 3;
#[cfg(loom)]
const SUB_BITS: u32 = 0;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Enough for every 64-bit duration, so that none has to be clamped.
pub(super) const BUCKETS: usize = (u64::BITS - SUB_BITS) as usize * SUB_BUCKETS + SUB_BUCKETS;

/// The bucket of a duration in ticks. Durations below 8 have a bucket each, longer ones share one
/// with those that agree in the leading four bits.
#[inline(always)]
pub(super) fn bucket_of(ticks: u64) -> usize {
    let bits = (ticks | SUB_BUCKETS as u64).ilog2();
    let shift = bits - SUB_BITS;
    (shift as usize) * SUB_BUCKETS + (ticks >> shift) as usize
}

/// The shortest duration of a bucket, in ticks.
fn start_of(bucket: usize) -> u64 {
    if bucket < 2 * SUB_BUCKETS {
        return bucket as u64;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    ((SUB_BUCKETS + bucket % SUB_BUCKETS) as u64) << shift
}

/// How many durations share a bucket.
fn width_of(bucket: usize) -> u64 {
    1 << (bucket / SUB_BUCKETS).saturating_sub(1)
}

/// Counts per bucket, written by one thread.
pub(super) struct Histogram([Tally; BUCKETS]);

impl Histogram {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Tally::new(0)))
    }

    #[inline(always)]
    pub(super) fn record(&self, ticks: u64) {
        let bucket = bucket_of(ticks);
        debug_assert!(bucket < BUCKETS);
        // SAFETY: the largest bucket is that of `u64::MAX`: its shift is 60 and its leading four
        // bits are 15, so 60 * 8 + 15 = `BUCKETS` - 1 (tested below).
        unsafe { self.0.get_unchecked(bucket) }.add(1);
    }

    pub(super) fn counts(&self) -> Vec<u64> {
        self.0.iter().map(Tally::get).collect()
    }
}

/// The duration that `share` (0 to 1) of the counted ones do not exceed, in ticks: interpolated
/// inside its bucket. 0 when nothing was counted.
pub(super) fn quantile(counts: &[u64], share: f64) -> u64 {
    let total: u64 = counts.iter().sum();
    let wanted = (share * total as f64).ceil().clamp(1.0, total.max(1) as f64);
    let mut below = 0.0;
    for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = *count as f64;
        if below + count >= wanted {
            let (start, width) = (start_of(bucket), width_of(bucket));
            let inside = (wanted - below - 0.5) / count;
            return start + ((width - 1) as f64 * inside) as u64;
        }
        below += count;
    }
    0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for bucket in 0..BUCKETS {
            let start = start_of(bucket);
            let end = if bucket + 1 == BUCKETS { u64::MAX } else { start_of(bucket + 1) };
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(end - 1), bucket);
            assert!(bucket < SUB_BUCKETS || (end - start) * 8 <= start, "bucket {bucket}");
        }
    }

    #[test]
    fn quantiles_are_within_an_eighth_of_the_exact_ones() {
        let histogram = Histogram::new();
        let durations: Vec<u64> = (0..10_000_u64).map(|n| 50 + n * n / 7).collect();
        for ticks in &durations {
            histogram.record(*ticks);
        }
        let counts = histogram.counts();
        for share in [0.01, 0.25, 0.5, 0.9, 0.95, 0.999] {
            let exact = durations[(share * 10_000.0) as usize - 1] as f64;
            let found = quantile(&counts, share) as f64;
            assert!((found / exact - 1.0).abs() < 0.07, "p{share}: {found} against {exact}");
        }
    }

    #[test]
    fn one_duration_is_every_quantile() {
        let histogram = Histogram::new();
        histogram.record(1000);
        for share in [0.0, 0.5, 1.0] {
            let found = quantile(&histogram.counts(), share);
            assert_eq!(bucket_of(found), bucket_of(1000));
        }
        assert_eq!(quantile(&[0; BUCKETS], 0.5), 0);
    }
}
