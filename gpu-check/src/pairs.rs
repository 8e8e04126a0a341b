//! The same kernels as two have timed them.

use crate::statistics::{largest, median, time};

/// The framework's duration may be shorter by so much of the driver's, or by [`LEAST`]; longer ones hold
/// the device's way to the kernel (on an H200 21 µs in the median, burn 0.22.1).
pub const PART: f64 = 0.02;
/// In nanoseconds.
pub const LEAST: f64 = 1000.0;

/// How durations of the same kernels compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// How many kernels were compared.
    pub count: usize,
    /// How many are shorter as the framework has them, by more than is allowed.
    pub too_far: usize,
    /// In the middle, in nanoseconds; above 0 if the framework's times are the longer ones.
    pub median: f64,
    /// Without its sign.
    pub largest: f64,
    /// How many are longer as the framework has them.
    pub longer: usize,
}

impl Comparison {
    /// Of pairs of durations in nanoseconds: the framework's and the driver's.
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

    /// Whether there were kernels, and none is shorter as the framework has it.
    pub fn is_good(&self) -> bool {
        self.count > 0 && self.too_far == 0
    }

    /// What the table says.
    pub fn words(&self) -> String {
        let Self { count, too_far, median, largest, .. } = self;
        let mut words = format!(
            "{too_far} of {count} of the framework's are shorter by more; difference: median {}, largest {}",
            time(*median),
            time(*largest)
        );
        // Nine of ten on one side are no chance.
        if self.longer * 10 >= count * 9 && *count > 0 {
            words += "; the framework's are longer throughout: its time stamps lie around a kernel, \
                      and so hold the device's way to it";
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
        assert!(!comparison.is_good() && !comparison.words().contains("throughout"));
    }

    #[test]
    fn what_is_longer_throughout_is_said() {
        let comparison = Comparison::of(&[(2500.0, 2000.0); 10]);
        assert!(comparison.is_good());
        let start = "0 of 10 of the framework's are shorter by more; difference: median 500 ns, largest 500 ns; the";
        assert!(comparison.words().starts_with(start), "{}", comparison.words());
    }

    #[test]
    fn nothing_is_not_good() {
        assert!(!Comparison::of(&[]).is_good());
    }
}
