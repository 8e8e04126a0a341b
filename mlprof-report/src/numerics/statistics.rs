//! What is said of the numbers in a tensor.

use crate::value::report_value;
use mlprof_events::Reduced;
use serde::Serialize;
#[cfg(feature = "read")]
use serde::{Deserialize, Deserializer};

/// How many numbers of a tensor a sample has at most.
pub const SAMPLE: usize = 32;

/// Of so many numbers of a tensor one is in the sample of it, beginning with the first.
pub fn sample_every(count: u64) -> u64 {
    count.div_ceil(SAMPLE as u64).max(1)
}

report_value! {
/// What is said of the numbers in a tensor. Of those that are finite, but for counts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TensorStatistics from TensorStatisticsParts {
    /// How many there are.
    pub count: u64,
    /// How many are NaN.
    pub nans: u64,
    /// How many are infinite, positive or negative.
    pub infinities: u64,
    /// How many are 0.
    pub zeros: u64,
    /// How many are not 0 and smaller than the smallest normal number of their type.
    pub subnormals: u64,
    /// The smallest; `None` where nothing is finite.
    pub minimum: Option<f64>,
    /// The largest.
    pub maximum: Option<f64>,
    /// Their mean; `None` also where it or its deviations are above the largest `f64`.
    pub mean: Option<f64>,
    /// Their standard deviation, of all of them and not of a sample.
    pub standard_deviation: Option<f64>,
    /// The sum of their absolute values; infinite, in JSON `null`, where that is above the largest
    /// `f64`.
    #[serde(deserialize_with = "null_as_infinity")]
    pub l1_norm: f64,
    /// The root of the sum of their squares; infinite, in JSON `null`, where that sum is above the
    /// largest `f64`.
    #[serde(deserialize_with = "null_as_infinity")]
    pub l2_norm: f64,
    /// The smallest absolute value that is not 0.
    pub least_magnitude: Option<f64>,
}
}

#[cfg(feature = "read")]
fn null_as_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

impl TensorStatistics {
    /// Whether no number is NaN or infinite.
    pub const fn is_finite(&self) -> bool {
        self.nans == 0 && self.infinities == 0
    }

    /// How many are neither NaN nor infinite.
    #[doc(hidden)]
    pub const fn finite(&self) -> u64 {
        self.count - self.nans - self.infinities
    }

    /// The root of the mean of the squares.
    #[doc(hidden)]
    pub fn root_mean_square(&self) -> f64 {
        match self.finite() {
            0 => 0.0,
            finite => self.l2_norm / (finite as f64).sqrt(),
        }
    }

    /// The quotient of the largest and the smallest absolute value that is not 0, in powers of two; `None` where all
    /// are 0.
    #[doc(hidden)]
    pub fn dynamic_range(&self) -> Option<f64> {
        let largest = self.maximum?.abs().max(self.minimum?.abs());
        Some((largest / self.least_magnitude?).log2())
    }

    /// Of a tensor of so many numbers, which the device that it is on has reduced.
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

    /// Those of both together.
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

/// Sums over finite numbers by which mean and standard deviation are known. The deviations are from
/// a number near the mean: the difference of a mean of squares and a squared mean has no digit left
/// where the numbers vary little.
#[derive(Clone, Copy)]
pub(super) struct Moments {
    /// Count of the numbers.
    pub(super) finite: u64,
    /// The number that deviations are from.
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

    /// Returns the sums over both, as deviations from the mean of the larger side.
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

/// Returns numbers as a record has them: NaN is `None`.
pub fn sampled_numbers(numbers: &[f64]) -> Vec<Option<f64>> {
    numbers.iter().map(|number| Some(*number).filter(|number| !number.is_nan())).collect()
}
