//! Durations of each action's calls by bucket, for aggregation over a whole process.

use std::collections::HashMap;

use super::SimpleProfiler;
use super::distribution::{Distribution, start_of, width_of};

/// Durations of the calls of one action. **Not for users**: it may change in any version.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct ActionDurations {
    /// Name of the action.
    pub action: &'static str,
    /// Total time of all calls in seconds. Nested calls count in full.
    pub seconds: f64,
    /// Middle of each non-empty bucket in seconds, and its number of calls, shortest first.
    /// Durations in one bucket differ by at most 1/8.
    pub buckets: Vec<(f64, u64)>,
}

impl SimpleProfiler {
    /// Returns the durations of calls since the stage began, one entry per action, in no particular
    /// order.
    #[doc(hidden)]
    pub fn durations(&self) -> Vec<ActionDurations> {
        let collected = self.recorder.collect();
        let rate = collected.rate;
        let mut all: HashMap<&'static str, (u64, Distribution)> = HashMap::new();
        for (action, row) in collected.parts.iter().flat_map(|part| &part.snapshot) {
            let (ticks, distribution) = all.entry(action.name()).or_default();
            *ticks += row.total + row.recursive;
            distribution.merge(&row.distribution);
            if row.count > 0 {
                distribution.add(row.first);
            }
        }
        let middle = |bucket: usize| {
            rate.seconds(start_of(bucket)) + rate.seconds(width_of(bucket) - 1) / 2.0
        };
        let durations = |(action, (ticks, distribution)): (_, (u64, Distribution))| {
            let buckets = distribution.0.iter();
            ActionDurations {
                action,
                seconds: rate.seconds(ticks),
                buckets: buckets
                    .map(|(bucket, count)| (middle(*bucket as usize), *count))
                    .collect(),
            }
        };
        all.into_iter().map(durations).collect()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use crate::{ProfilerExt, SimpleProfiler};

    #[test]
    fn all_calls_are_in_their_buckets() {
        let profiler = SimpleProfiler::new();
        for milliseconds in [1, 1, 20] {
            let _outer = profiler.profile("outer");
            drop(profiler.profile("inner"));
            std::thread::sleep(Duration::from_millis(milliseconds));
        }
        let mut all = profiler.durations();
        all.sort_by_key(|one| one.action);
        let [inner, outer] = &all[..] else { panic!("{all:?}") };
        assert_eq!((inner.action, outer.action), ("inner", "outer"));
        let calls = |buckets: &[(f64, u64)]| buckets.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!((calls(&inner.buckets), calls(&outer.buckets)), (3, 3), "{all:?}");
        let (longest, count) = outer.buckets[outer.buckets.len() - 1];
        assert!(longest > 0.02 * 7.0 / 8.0 && count == 1, "{outer:?}");
        let of_buckets: f64 =
            outer.buckets.iter().map(|(middle, count)| middle * *count as f64).sum();
        assert!((of_buckets / outer.seconds - 1.0).abs() < 0.125, "{outer:?}");
    }
}
