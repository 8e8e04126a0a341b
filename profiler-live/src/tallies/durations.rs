//! How long calls took: how many, together, and how that is distributed.

/// Calls, and in which eighths of powers of two their durations lie: the buckets of Prometheus's native histograms with
/// schema 3. A few hundred buckets at most, from a nanosecond to centuries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    pub(crate) calls: u64,
    pub(crate) nanoseconds: u64,
    /// Ascending: bucket `i` has what took more than 2^((i-1)/8) seconds, and at most 2^(i/8).
    buckets: Vec<(i32, u64)>,
}

impl Durations {
    /// A call is over.
    pub(crate) fn add(&mut self, nanoseconds: u64) {
        self.calls += 1;
        self.nanoseconds = self.nanoseconds.saturating_add(nanoseconds);
        let seconds = nanoseconds.max(1) as f64 / 1e9;
        self.count((seconds.log2() * 8.0).ceil() as i32, 1);
    }

    fn count(&mut self, bucket: i32, calls: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(known, _)| *known) {
            Ok(place) => self.buckets[place].1 += calls,
            Err(place) => self.buckets.insert(place, (bucket, calls)),
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.nanoseconds = self.nanoseconds.saturating_add(other.nanoseconds);
        other.buckets.iter().for_each(|(bucket, calls)| self.count(*bucket, *calls));
    }

    /// The upper bound in seconds of the bucket that this share of all calls ends in: up to a tenth more than it was.
    pub(crate) fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (share * self.calls as f64).ceil().max(1.0) as u64;
        let mut counted = 0;
        let bucket = self.buckets.iter().find(|(_, calls)| {
            counted += calls;
            counted >= wanted
        });
        bucket.map(|(bucket, _)| (f64::from(*bucket) / 8.0).exp2())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_a_tenth_too_long_at_most() {
        let mut all = Durations::default();
        assert_eq!(all.quantile(0.5), None);
        (1..=100).for_each(|milliseconds| all.add(milliseconds * 1_000_000));
        for (share, seconds) in [(0.5, 0.05), (0.99, 0.099), (1.0, 0.1)] {
            let found = all.quantile(share).expect("calls");
            assert!((seconds..seconds * 1.0906).contains(&found), "{share}: {found}");
        }
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!((twice.calls, twice.nanoseconds), (200, 2 * all.nanoseconds));
        assert_eq!(twice.quantile(0.5), all.quantile(0.5));
    }

    #[test]
    fn buckets_are_those_of_native_histograms() {
        let mut all = Durations::default();
        [1_000_000_000, 1_000_000_001, 2_000_000_000, 0].into_iter().for_each(|it| all.add(it));
        assert_eq!(all.buckets, [(-239, 1), (0, 1), (1, 1), (8, 1)]);
    }
}
