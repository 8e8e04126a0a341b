//! Compares two durations of the same kernels.

use crate::statistics::{largest, median, time};

/// Maximum relative amount by which the framework's duration may be shorter than the driver's; see
/// also [`LEAST`]. Longer durations are allowed, because they include the time until the kernel
/// starts (median 21 µs on an H200 with burn 0.22.1).
pub const PART: f64 = 0.02;
/// Minimum tolerance in nanoseconds.
pub const LEAST: f64 = 1000.0;

/// Comparison of two sets of durations of the same kernels.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Number of compared kernels.
    pub count: usize,
    /// Number of kernels whose framework duration is too short.
    pub too_far: usize,
    /// Median difference in nanoseconds; positive if the framework's durations are longer.
    pub median: f64,
    /// Largest absolute difference in nanoseconds.
    pub largest: f64,
    /// Number of kernels whose framework duration is longer.
    pub longer: usize,
}

impl Comparison {
    /// Compares pairs of durations in nanoseconds: the framework's and the driver's.
    pub fn of(pairs: &[(f64, f64)]) -> Self {
        let differences: Vec<f64> =
            pairs.iter().map(|(framework, driver)| framework - driver).collect();
        let is_too_far = |(one, other): &&(f64, f64)| other - one > (PART * other).max(LEAST);
        Self {
            count: pairs.len(),
            too_far: pairs.iter().filter(is_too_far).count(),
            median: median(&differences),
            largest: largest(&differences),
            longer: differences.iter().filter(|difference| **difference > 0.0).count(),
        }
    }

    /// Returns `true` if there are kernels and no framework duration is too short.
    pub fn is_good(&self) -> bool {
        self.count > 0 && self.too_far == 0
    }

    /// Returns the text for the table.
    pub fn words(&self) -> String {
        let Self { count, too_far, median, largest, .. } = self;
        let mut words = format!(
            "{too_far} of {count} framework times are shorter by more; difference: median {}, \
             largest {}",
            time(*median),
            time(*largest)
        );
        // Nine of ten on one side are not a coincidence.
        if self.longer * 10 >= count * 9 && *count > 0 {
            words += "; all framework times are longer, because its time stamps enclose the \
                      kernel and include the time until the device starts it";
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_kernels_may_be_shorter_by_a_microsecond_and_long_ones_by_a_part() {
        let pairs = [(2900.0, 2000.0), (4100.0, 2000.0), (900.0, 2000.0), (97_900.0, 1e5)];
        let comparison = Comparison::of(&pairs);
        assert_eq!((comparison.count, comparison.too_far), (4, 2));
        assert_eq!((comparison.largest, comparison.longer), (2100.0, 2));
        assert!(!comparison.is_good() && !comparison.words().contains("all framework times"));
    }

    #[test]
    fn longer_framework_times_are_explained() {
        let comparison = Comparison::of(&[(2500.0, 2000.0); 10]);
        assert!(comparison.is_good());
        let start = "0 of 10 framework times are shorter by more; difference: median 500 ns, \
                     largest 500 ns; the";
        assert!(comparison.words().starts_with(start), "{}", comparison.words());
    }

    #[test]
    fn nothing_is_not_good() {
        assert!(!Comparison::of(&[]).is_good());
    }
}
