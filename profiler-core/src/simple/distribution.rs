//! Buckets of durations, and distributions over these buckets.

/// Number of buckets per power of two, as a power of two. Durations in one bucket differ by at most
/// 1/8.
#[cfg(not(loom))]
pub(super) const SUB_BITS: u32 = 3;
#[cfg(loom)]
pub(super) const SUB_BITS: u32 = 0;
pub(super) const SUB_BUCKETS: usize = 1 << SUB_BITS;

/// Number of buckets.
pub(super) const BUCKETS: usize = (u64::BITS - SUB_BITS) as usize * SUB_BUCKETS + SUB_BUCKETS;

/// Shorter durations, in ticks, count as this one. Some counters advance in steps of tens of
/// nanoseconds, and two readings in the same step differ by one. Such a duration counts like one
/// step.
pub(super) const SHORTEST: u64 = SUB_BUCKETS as u64;

/// Returns the bucket of a duration in ticks. Durations share a bucket if their leading four bits
/// are equal.
#[inline(always)]
pub(super) fn bucket_of(ticks: u64) -> usize {
    let ticks = ticks.max(SHORTEST);
    let bits = ticks.ilog2();
    let shift = bits - SUB_BITS;
    (shift as usize) * SUB_BUCKETS + (ticks >> shift) as usize
}

/// Returns the shortest duration of a bucket, in ticks.
pub(super) fn start_of(bucket: usize) -> u64 {
    if bucket < 2 * SUB_BUCKETS {
        return bucket as u64;
    }
    let shift = bucket / SUB_BUCKETS - 1;
    ((SUB_BUCKETS + bucket % SUB_BUCKETS) as u64) << shift
}

/// Returns the number of different durations, in ticks, that share a bucket.
pub(super) fn width_of(bucket: usize) -> u64 {
    1 << (bucket / SUB_BUCKETS).saturating_sub(1)
}

/// Counts of durations in ticks by bucket, shortest first. It holds only non-empty buckets, a few
/// hundred at most. **Not for users**: it may change in any version.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution(pub(super) Vec<(u16, u64)>);

impl Distribution {
    /// Returns the number of durations.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Counts one more duration.
    pub fn add(&mut self, ticks: u64) {
        self.add_to(bucket_of(ticks) as u16, 1);
    }

    /// Adds the counts of another distribution.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(bucket, count)| self.add_to(*bucket, *count));
    }

    /// Adds `count` durations to a bucket.
    pub(super) fn add_to(&mut self, bucket: u16, count: u64) {
        match self.0.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(place) => self.0[place].1 += count,
            Err(place) => self.0.insert(place, (bucket, count)),
        }
    }

    /// Returns the quantile at `share` (0 to 1) in ticks, interpolated inside its bucket. Returns 0
    /// if the distribution is empty.
    pub fn quantile(&self, share: f64) -> u64 {
        let Some(place) = self.place(share) else { return 0 };
        place.start + ((place.width - 1) as f64 * place.inside) as u64
    }

    /// Returns the start and width, in ticks, of the bucket that contains the quantile. Returns
    /// `None` if the distribution is empty.
    pub(super) fn bucket_at(&self, share: f64) -> Option<(u64, u64)> {
        self.place(share).map(|place| (place.start, place.width))
    }

    fn place(&self, share: f64) -> Option<Place> {
        let total = self.total();
        let wanted = (share * total as f64).ceil().clamp(1.0, total.max(1) as f64);
        let mut below = 0.0;
        for (bucket, count) in &self.0 {
            let count = *count as f64;
            if below + count >= wanted {
                let (start, width) = (start_of(*bucket as usize), width_of(*bucket as usize));
                return Some(Place { start, width, inside: (wanted - below - 0.5) / count });
            }
            below += count;
        }
        None
    }
}

/// Position in a bucket.
struct Place {
    start: u64,
    width: u64,
    /// Relative position: 0 at the beginning of the bucket, 1 at its end.
    inside: f64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_narrow() {
        assert_eq!((bucket_of(0), bucket_of(SHORTEST)), (SUB_BUCKETS, SUB_BUCKETS));
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        for bucket in SUB_BUCKETS..BUCKETS {
            let start = start_of(bucket);
            let end = if bucket + 1 == BUCKETS { u64::MAX } else { start_of(bucket + 1) };
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(end - 1), bucket);
            assert!((end - start) * 8 <= start, "bucket {bucket}");
        }
    }
}
