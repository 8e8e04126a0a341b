//! Statistics of the numbers in a tensor.

use crate::value::report_value;
use mlprof_events::Reduced;
use serde::Serialize;
#[cfg(feature = "read")]
use serde::{Deserialize, Deserializer};

/// Maximum number of values in the sample of a tensor.
pub const SAMPLE: usize = 32;

/// Returns the sampling interval for a tensor of `count` numbers. The sample begins with the first
/// number.
pub fn sample_every(count: u64) -> u64 {
    count.div_ceil(SAMPLE as u64).max(1)
}

report_value! {
/// Statistics of the numbers in a tensor. All fields except counts refer to finite numbers.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TensorStatistics from TensorStatisticsParts {
    /// Number of elements.
    pub count: u64,
    /// Number of NaN values.
    pub nans: u64,
    /// Number of infinite values, positive or negative.
    pub infinities: u64,
    /// Number of zeros.
    pub zeros: u64,
    /// Number of nonzero values below the smallest normal number of their type.
    pub subnormals: u64,
    /// Smallest value. `None` if no value is finite.
    pub minimum: Option<f64>,
    /// Largest value. `None` if no value is finite.
    pub maximum: Option<f64>,
    /// Mean. `None` if no value is finite, or if the mean or its deviations exceed the largest
    /// `f64`.
    pub mean: Option<f64>,
    /// Population standard deviation, computed from all values.
    pub standard_deviation: Option<f64>,
    /// Sum of the absolute values. Infinite, and `null` in JSON, if it exceeds the largest `f64`.
    #[serde(deserialize_with = "null_as_infinity")]
    pub l1_norm: f64,
    /// Square root of the sum of the squares. Infinite, and `null` in JSON, if that sum exceeds the
    /// largest `f64`.
    #[serde(deserialize_with = "null_as_infinity")]
    pub l2_norm: f64,
    /// Smallest nonzero absolute value.
    pub least_magnitude: Option<f64>,
}
}

#[cfg(feature = "read")]
fn null_as_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

impl TensorStatistics {
    /// Returns `true` if no value is NaN or infinite.
    pub const fn is_finite(&self) -> bool {
        self.nans == 0 && self.infinities == 0
    }

    /// Returns the number of finite values.
    #[doc(hidden)]
    pub const fn finite(&self) -> u64 {
        self.count - self.nans - self.infinities
    }

    /// Returns the root mean square of the finite values.
    #[doc(hidden)]
    pub fn root_mean_square(&self) -> f64 {
        match self.finite() {
            0 => 0.0,
            finite => self.l2_norm / (finite as f64).sqrt(),
        }
    }

    /// Returns the ratio of the largest to the smallest nonzero absolute value, in powers of two.
    /// Returns `None` if all values are 0.
    #[doc(hidden)]
    pub fn dynamic_range(&self) -> Option<f64> {
        let largest = self.maximum?.abs().max(self.minimum?.abs());
        Some((largest / self.least_magnitude?).log2())
    }

    /// Creates the statistics of a tensor of `count` numbers that its device has reduced.
    #[doc(hidden)]
    pub fn of_reduced(count: u64, reduced: &Reduced) -> Self {
        let finite = count.saturating_sub(reduced.nans + reduced.infinities);
        let is_any_finite = finite > 0;
        let moments = Moments {
            finite,
            shift: reduced.shift,
            deviation: reduced.deviation,
            deviation_squares: reduced.deviation_squares,
        };
        Self {
            count,
            nans: reduced.nans,
            infinities: reduced.infinities,
            zeros: reduced.zeros,
            subnormals: reduced.subnormals,
            minimum: is_any_finite.then_some(reduced.minimum),
            maximum: is_any_finite.then_some(reduced.maximum),
            mean: moments.mean(),
            standard_deviation: moments.standard_deviation(),
            l1_norm: reduced.absolute,
            l2_norm: reduced.squares.sqrt(),
            least_magnitude: (finite > reduced.zeros).then_some(reduced.least_magnitude),
        }
    }

    /// Returns the combined statistics of both tensors.
    #[doc(hidden)]
    #[must_use]
    pub fn merged(&self, other: &Self) -> Self {
        let both =
            |least: fn(f64, f64) -> f64, one: Option<f64>, other: Option<f64>| match (one, other) {
                (Some(one), Some(other)) => Some(least(one, other)),
                (one, other) => one.or(other),
            };
        let squares = self.l2_norm.powi(2) + other.l2_norm.powi(2);
        let moments = Moments::of(self).merged(Moments::of(other));
        Self {
            count: self.count + other.count,
            nans: self.nans + other.nans,
            infinities: self.infinities + other.infinities,
            zeros: self.zeros + other.zeros,
            subnormals: self.subnormals + other.subnormals,
            minimum: both(f64::min, self.minimum, other.minimum),
            maximum: both(f64::max, self.maximum, other.maximum),
            mean: moments.mean(),
            standard_deviation: moments.standard_deviation(),
            l1_norm: self.l1_norm + other.l1_norm,
            l2_norm: squares.sqrt(),
            least_magnitude: both(f64::min, self.least_magnitude, other.least_magnitude),
        }
    }
}

/// Sums over finite numbers for computing mean and standard deviation. Deviations are relative to a
/// number near the mean. The difference between a mean of squares and a squared mean loses all
/// digits if the numbers vary little.
#[derive(Clone, Copy)]
pub(super) struct Moments {
    /// Count of the numbers.
    pub(super) finite: u64,
    /// Reference value of the deviations.
    pub(super) shift: f64,
    /// Sum of the deviations.
    pub(super) deviation: f64,
    /// Sum of the squared deviations.
    pub(super) deviation_squares: f64,
}

impl Moments {
    fn of(statistics: &TensorStatistics) -> Self {
        let finite = statistics.finite();
        let variance = statistics.standard_deviation.unwrap_or(0.0).powi(2);
        Self {
            finite,
            shift: statistics.mean.unwrap_or(0.0),
            deviation: 0.0,
            deviation_squares: variance * finite as f64,
        }
    }

    pub(super) fn mean(&self) -> Option<f64> {
        let mean = (self.finite > 0).then(|| self.shift + self.deviation / self.finite as f64);
        mean.filter(|mean| mean.is_finite())
    }

    pub(super) fn standard_deviation(&self) -> Option<f64> {
        let finite = (self.finite > 0).then_some(self.finite as f64)?;
        let variance = self.deviation_squares / finite - (self.deviation / finite).powi(2);
        variance.is_finite().then(|| variance.max(0.0).sqrt())
    }

    /// Returns the sums over both sides, as deviations from the reference value of the larger side.
    fn merged(self, other: Self) -> Self {
        if other.finite > self.finite {
            return other.merged(self);
        }
        let count = other.finite as f64;
        let apart = other.shift - self.shift;
        Self {
            finite: self.finite + other.finite,
            shift: self.shift,
            deviation: self.deviation + other.deviation + count * apart,
            deviation_squares: self.deviation_squares
                + other.deviation_squares
                + 2.0 * apart * other.deviation
                + count * apart * apart,
        }
    }
}

/// Returns numbers as a record stores them. NaN becomes `None`.
pub fn sampled_numbers(numbers: &[f64]) -> Vec<Option<f64>> {
    numbers.iter().map(|number| Some(*number).filter(|number| !number.is_nan())).collect()
}
