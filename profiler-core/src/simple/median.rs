//! The median of counted durations, and how well it is known.

use super::distribution::{Distribution, start_of, width_of};
use crate::report::internals::{SURE, median_shares};

/// What is beyond these shares of all durations is unusual.
const USUAL: (f64, f64) = (0.025, 0.975);

/// The median.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Median {
    /// As it is of these durations, in ticks; 0 if there are none.
    pub(super) ticks: u64,
    /// Between which durations it lies for any number of such; `None` if there are too few.
    pub(super) limits: Option<(u64, u64)>,
}

impl Median {
    /// Of durations of which the sum and the longest are known besides.
    ///
    /// A histogram alone takes durations to be spread evenly in each bucket. Where nearly all are in one
    /// or two buckets that is wrong by up to half a bucket; their sum says by how much. It is exact, so
    /// what it differs by from the sum of the histogram moves the median, once what lies in the buckets
    /// of unusual durations is put aside.
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

/// By how much usual durations are longer than the middles of their buckets, on average; in ticks.
struct Shift {
    ticks: f64,
    /// How far off that may be for the median.
    error: f64,
}

impl Shift {
    /// `None` without durations.
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
                    // This one is known.
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
            // The median need not be off by what the mean is, but by most of that.
            true => Self { ticks, error: error + ticks.abs() / 4.0 },
            // The sum is of something else, such as of one that came meanwhile.
            false => Self { ticks: 0.0, error: width as f64 },
        })
    }

    /// The duration that so many do not exceed, moved, and further by `error`, within its bucket.
    fn apply(&self, distribution: &Distribution, share: f64, error: f64) -> u64 {
        let Some((start, width)) = distribution.bucket_at(share) else { return 0 };
        let moved = distribution.quantile(share) as f64 + self.ticks + error;
        moved.clamp(start as f64, (start + (width - 1)) as f64).round() as u64
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Numbers between 0 and 1, always the same ones.
    struct Chance(u64);

    impl Chance {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }

        /// Normally distributed around 0.
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

    /// Wherever durations lie in their bucket, and some of them far off.
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

    /// With a confidence of 99 %, for narrow and for wide distributions, few calls and many.
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
