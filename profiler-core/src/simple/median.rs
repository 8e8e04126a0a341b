//! Median of durations counted in a histogram, with its confidence interval.

use super::distribution::{Distribution, start_of, width_of};
use crate::report::internals::{SURE, median_shares};

/// Quantiles of usual durations. Durations outside of them are unusual.
const USUAL: (f64, f64) = (0.025, 0.975);

/// Median with confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Median {
    /// Median of these durations in ticks, or 0 if there are none.
    pub(super) ticks: u64,
    /// Confidence interval for the median of any number of such durations, in ticks. `None` if
    /// there are too few.
    pub(super) limits: Option<(u64, u64)>,
}

impl Median {
    /// Returns the median of durations, given also their sum and the longest duration.
    ///
    /// A histogram alone assumes that durations are spread evenly over each bucket. If nearly all
    /// are in one or two buckets, the error can be half a bucket. The exact sum corrects it: the
    /// median moves by the difference between the exact sum and the histogram's sum. Buckets of
    /// unusual durations are left out of that comparison.
    pub(super) fn of(distribution: &Distribution, sum: u64, longest: u64) -> Self {
        let Some(shift) = Shift::of(distribution, sum, longest) else {
            return Self { ticks: distribution.quantile(0.5), limits: None };
        };
        let ticks = shift.apply(distribution, 0.5, 0.0);
        let limits = median_shares(distribution.total()).map(|(below, above)| {
            let low = shift.apply(distribution, below, -shift.error);
            let high = shift.apply(distribution, above, shift.error);
            (low.min(ticks), high.max(ticks))
        });
        Self { ticks, limits }
    }
}

/// Mean difference between usual durations and the middles of their buckets, in ticks.
struct Shift {
    ticks: f64,
    /// Error limit of the shift for the median, in ticks.
    error: f64,
}

impl Shift {
    /// Returns the shift, or `None` without durations.
    fn of(distribution: &Distribution, sum: u64, longest: u64) -> Option<Self> {
        let (_, width) = distribution.bucket_at(0.5)?;
        let (first, _) = distribution.bucket_at(USUAL.0)?;
        let (last, _) = distribution.bucket_at(USUAL.1)?;
        let (mut usual, mut expected, mut variance) = (0.0, 0.0, 0.0);
        for (index, (bucket, count)) in distribution.0.iter().enumerate() {
            let (start, width) = (start_of(*bucket as usize), width_of(*bucket as usize) as f64);
            let middle = start as f64 + (width - 1.0) / 2.0;
            let mut count = *count as f64;
            if (first..=last).contains(&start) {
                usual += count;
            } else {
                let is_last = index + 1 == distribution.0.len();
                if is_last {
                    // The longest duration is known exactly.
                    count -= 1.0;
                    expected += longest as f64;
                }
                variance += count * width * width / 12.0;
            }
            expected += count * middle;
        }
        let ticks = (sum as f64 - expected) / usual;
        let error = SURE * variance.sqrt() / usual;
        Some(match ticks.abs() <= width as f64 / 2.0 + error {
            // The median may deviate less than the mean, but by most of the same amount.
            true => Self { ticks, error: error + ticks.abs() / 4.0 },
            // The sum does not match the durations, for example because a call ended between the
            // two readings.
            false => Self { ticks: 0.0, error: width as f64 },
        })
    }

    /// Returns the quantile at `share`, moved by the shift and `error`, but limited to its bucket.
    fn apply(&self, distribution: &Distribution, share: f64, error: f64) -> u64 {
        let Some((start, width)) = distribution.bucket_at(share) else { return 0 };
        let moved = distribution.quantile(share) as f64 + self.ticks + error;
        moved.clamp(start as f64, (start + (width - 1)) as f64).round() as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Deterministic pseudo-random numbers between 0 and 1.
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }

        /// Returns a normally distributed number with mean 0.
        fn normal(&mut self) -> f64 {
            let (one, other) = (self.next(), self.next());
            (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
        }
    }

    fn of(durations: &[u64]) -> Median {
        let mut distribution = Distribution::default();
        durations.iter().for_each(|ticks| distribution.add(*ticks));
        let longest = durations.iter().max().copied().unwrap_or(0);
        Median::of(&distribution, durations.iter().sum(), longest)
    }

    fn exact(durations: &[u64]) -> u64 {
        let mut sorted = durations.to_vec();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }

    /// Covers durations at all positions of their bucket, with some outliers.
    #[test]
    fn durations_of_one_bucket_are_told_apart() {
        let mut chance = Chance(1);
        for percent in 0..25 {
            let typical = 1e7 * (1.0 + f64::from(percent) / 100.0);
            for spread in [0.001, 0.005, 0.02] {
                let one = |index: u64, chance: &mut Chance| match index % 50 {
                    7 => (3.0 * typical * (1.0 + chance.next())) as u64,
                    _ => (typical * (1.0 + spread * chance.normal())) as u64,
                };
                let durations: Vec<u64> = (0..500).map(|index| one(index, &mut chance)).collect();
                let (found, exact) = (of(&durations), exact(&durations) as f64);
                let off = (found.ticks as f64 - exact).abs() / exact;
                assert!(off < 0.015, "{percent} {spread}: {found:?}, {exact}");
                let (low, high) = found.limits.expect("enough of them");
                let is_inside = (low as f64..=high as f64).contains(&exact);
                assert!(is_inside, "{percent} {spread}: {found:?}, {exact}");
            }
        }
    }

    /// Checks a confidence of 99 % for narrow and wide distributions, with few and many calls.
    #[test]
    fn limits_have_the_median_of_all_such_between_them() {
        let mut chance = Chance(2);
        let (mut tried, mut missed, mut width) = (0, 0, 0.0);
        for count in [8, 20, 100, 1_000] {
            for spread in [0.002, 0.01, 0.05, 0.3, 1.0] {
                for run in 0..100 {
                    let median = 1e6 * (1.0 + f64::from(run) / 50.0);
                    let one = |_| (median * (spread * chance.normal()).exp()) as u64;
                    let durations: Vec<u64> = (0..count).map(one).collect();
                    let (low, high) = of(&durations).limits.expect("enough of them");
                    tried += 1;
                    missed += u32::from(!(low as f64..=high as f64).contains(&median));
                    if count == 1_000 && spread == 0.05 {
                        width += (high - low) as f64 / median / 100.0;
                    }
                }
            }
        }
        assert!(missed * 100 <= 2 * tried, "{missed} of {tried}");
        assert!(width < 0.05, "and not by being wide: {width}");
    }

    #[test]
    fn too_few_have_no_limits_and_a_wrong_sum_does_no_harm() {
        assert_eq!(of(&[]), Median { ticks: 0, limits: None });
        assert_eq!(of(&[100; 7]).limits, None);
        assert_eq!(of(&[100; 8]).ticks, 100);
        let mut distribution = Distribution::default();
        (0..100).for_each(|_| distribution.add(1_000_000));
        for sum in [0, 1, u64::MAX] {
            let found = Median::of(&distribution, sum, 1_000_000);
            let (low, high) = found.limits.expect("enough of them");
            assert!(low <= 1_000_000 && 1_000_000 <= high, "{found:?}");
        }
    }
}
