//! What is said of the numbers in a tensor.

use profiler_events::{NumberReader, Reduced};
use serde::{Deserialize, Deserializer, Serialize};

/// How many numbers of a tensor a sample has at most.
pub const SAMPLE: usize = 32;

/// Of so many numbers of a tensor one is in the sample of it, beginning with the first.
pub fn sample_every(count: u64) -> u64 {
    count.div_ceil(SAMPLE as u64).max(1)
}

/// What is said of the numbers in a tensor. Of those that are finite, but for counts.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TensorStatistics {
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

fn null_as_infinity<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

impl TensorStatistics {
    /// Whether no number is NaN or infinite.
    pub const fn is_finite(&self) -> bool {
        self.nans == 0 && self.infinities == 0
    }

    /// How many are neither NaN nor infinite.
    pub const fn finite(&self) -> u64 {
        self.count - self.nans - self.infinities
    }

    /// The root of the mean of the squares.
    pub fn root_mean_square(&self) -> f64 {
        match self.finite() {
            0 => 0.0,
            finite => self.l2_norm / (finite as f64).sqrt(),
        }
    }

    /// The quotient of the largest and the smallest absolute value that is not 0, in powers of two; `None` where all
    /// are 0.
    pub fn dynamic_range(&self) -> Option<f64> {
        let largest = self.maximum?.abs().max(self.minimum?.abs());
        Some((largest / self.least_magnitude?).log2())
    }

    /// Of a tensor of so many numbers, which the device that it is on has reduced.
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
struct Moments {
    /// Count of the numbers.
    finite: u64,
    /// The number that deviations are from.
    shift: f64,
    /// Sum of the deviations.
    deviation: f64,
    /// Sum of the squared deviations.
    deviation_squares: f64,
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

    fn mean(&self) -> Option<f64> {
        let mean = (self.finite > 0).then(|| self.shift + self.deviation / self.finite as f64);
        mean.filter(|mean| mean.is_finite())
    }

    fn standard_deviation(&self) -> Option<f64> {
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

/// Makes [`TensorStatistics`] of a tensor's numbers, and a sample of them.
#[derive(Debug, Clone)]
pub struct StatisticsReader {
    lanes: Lanes,
    counts: Counts,
    /// The first finite number, which deviations are from.
    shift: Option<f64>,
    /// Of every so many numbers one is in the sample.
    every: u64,
    /// How many numbers there are until the next one of the sample.
    until_next: u64,
    sample: Vec<f64>,
}

/// Sums that do not wait for each other.
const LANES: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Lanes {
    minimum: [f64; LANES],
    maximum: [f64; LANES],
    least_magnitude: [f64; LANES],
    /// Sums of deviations from the shift.
    deviation: [f64; LANES],
    deviation_squares: [f64; LANES],
    absolute: [f64; LANES],
    squares: [f64; LANES],
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    all: u64,
    nans: u64,
    infinities: u64,
    zeros: u64,
    subnormals: u64,
}

impl Default for Lanes {
    fn default() -> Self {
        let infinite = [f64::INFINITY; LANES];
        let zero = [0.0; LANES];
        Self {
            minimum: infinite,
            maximum: [f64::NEG_INFINITY; LANES],
            least_magnitude: infinite,
            deviation: zero,
            deviation_squares: zero,
            absolute: zero,
            squares: zero,
        }
    }
}

impl Lanes {
    /// Takes a number that is finite.
    #[inline(always)]
    fn take(&mut self, lane: usize, number: f64, shift: f64) {
        let magnitude = number.abs();
        self.minimum[lane] = if number < self.minimum[lane] { number } else { self.minimum[lane] };
        self.maximum[lane] = if number > self.maximum[lane] { number } else { self.maximum[lane] };
        let least = if magnitude == 0.0 { f64::INFINITY } else { magnitude };
        let known = self.least_magnitude[lane];
        self.least_magnitude[lane] = if least < known { least } else { known };
        let deviation = number - shift;
        self.deviation[lane] += deviation;
        self.deviation_squares[lane] += deviation * deviation;
        self.absolute[lane] += magnitude;
        self.squares[lane] += number * number;
    }
}

impl StatisticsReader {
    /// For a tensor of so many numbers, which the sample is spread over.
    pub fn new(count: u64) -> Self {
        Self {
            lanes: Lanes::default(),
            counts: Counts::default(),
            shift: None,
            every: sample_every(count),
            until_next: 0,
            sample: Vec::new(),
        }
    }

    /// For a tensor of this shape.
    pub fn of_shape(shape: &[u64]) -> Self {
        Self::new(shape.iter().product())
    }

    /// What was read.
    pub fn statistics(&self) -> TensorStatistics {
        let Counts { all, nans, infinities, zeros, subnormals } = self.counts;
        let lanes = &self.lanes;
        let is_any_finite = all > nans + infinities;
        let least = |lanes: &[f64]| lanes.iter().copied().fold(f64::INFINITY, f64::min);
        let sum = |lanes: &[f64]| lanes.iter().sum::<f64>();
        let squares = sum(&lanes.squares);
        let moments = Moments {
            finite: all - nans - infinities,
            shift: self.shift.unwrap_or(0.0),
            deviation: sum(&lanes.deviation),
            deviation_squares: sum(&lanes.deviation_squares),
        };
        let largest = lanes.maximum.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        TensorStatistics {
            count: all,
            nans,
            infinities,
            zeros,
            subnormals,
            minimum: is_any_finite.then(|| least(&lanes.minimum)),
            maximum: is_any_finite.then_some(largest),
            mean: moments.mean(),
            standard_deviation: moments.standard_deviation(),
            l1_norm: sum(&lanes.absolute),
            l2_norm: squares.sqrt(),
            least_magnitude: Some(least(&lanes.least_magnitude)).filter(|least| least.is_finite()),
        }
    }

    /// Numbers of the tensor that are as far from each other as they can be, [`SAMPLE`] of them or
    /// all. NaN is `None`.
    pub fn sample(&self) -> Vec<Option<f64>> {
        sampled_numbers(&self.sample)
    }

    /// Reads numbers that were of a narrower type before, whose smallest normal number is `least_normal`.
    pub fn read_widened(&mut self, numbers: &[f64], least_normal: f64) {
        self.read(numbers, least_normal, |number| number);
    }

    fn read<T: Copy>(&mut self, numbers: &[T], least_normal: f64, wide: impl Fn(T) -> f64) {
        self.read_sample(numbers, &wide);
        if self.shift.is_none() {
            self.shift = numbers.iter().map(|number| wide(*number)).find(|it| it.is_finite());
        }
        self.counts.all += numbers.len() as u64;
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.read_by_avx2(numbers, least_normal, wide) };
        }
        self.read_in_lanes(numbers, least_normal, wide);
    }

    /// The same numbers in the same order, four of them by an instruction instead of two, whatever the program was compiled for.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn read_by_avx2<T: Copy>(
        &mut self,
        numbers: &[T],
        least_normal: f64,
        wide: impl Fn(T) -> f64,
    ) {
        self.read_in_lanes(numbers, least_normal, wide);
    }

    #[inline(always)]
    fn read_in_lanes<T: Copy>(
        &mut self,
        numbers: &[T],
        least_normal: f64,
        wide: impl Fn(T) -> f64,
    ) {
        let shift = self.shift.unwrap_or(0.0);
        let mut chunks = numbers.chunks_exact(LANES);
        for chunk in &mut chunks {
            let chunk: [f64; LANES] = std::array::from_fn(|lane| wide(chunk[lane]));
            // A sum of numbers that are finite is so, too, or so large that they are looked at one by one. In pairs, which do not
            // wait for each other.
            let pairs: [f64; LANES / 2] =
                std::array::from_fn(|lane| chunk[lane] + chunk[lane + LANES / 2]);
            let [one, two, three, four] = pairs;
            if !((one + three) + (two + four)).is_finite() {
                chunk.iter().for_each(|number| self.read_one(*number, least_normal));
                continue;
            }
            let mut zeros = 0;
            let mut small = 0;
            for (lane, number) in chunk.into_iter().enumerate() {
                self.lanes.take(lane, number, shift);
                zeros += u64::from(number == 0.0);
                small += u64::from(number.abs() < least_normal);
            }
            self.counts.zeros += zeros;
            self.counts.subnormals +=
                small.saturating_sub(if least_normal > 0.0 { zeros } else { 0 });
        }
        for number in chunks.remainder() {
            self.read_one(wide(*number), least_normal);
        }
    }

    fn read_one(&mut self, number: f64, least_normal: f64) {
        if number.is_nan() {
            self.counts.nans += 1;
        } else if number.is_infinite() {
            self.counts.infinities += 1;
        } else {
            self.lanes.take(0, number, self.shift.unwrap_or(0.0));
            self.counts.zeros += u64::from(number == 0.0);
            self.counts.subnormals += u64::from(number != 0.0 && number.abs() < least_normal);
        }
    }

    fn read_sample<T: Copy>(&mut self, numbers: &[T], wide: impl Fn(T) -> f64) {
        let length = numbers.len() as u64;
        while self.until_next < length {
            self.sample.push(wide(numbers[self.until_next as usize]));
            self.until_next += self.every;
        }
        self.until_next -= length;
    }
}

impl NumberReader for StatisticsReader {
    fn read_f32(&mut self, numbers: &[f32]) {
        self.read(numbers, f32::MIN_POSITIVE.into(), f64::from);
    }

    fn read_f64(&mut self, numbers: &[f64]) {
        self.read(numbers, f64::MIN_POSITIVE, |number| number);
    }

    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, least_normal: f64) {
        let mut chunk = Vec::with_capacity(1024);
        loop {
            chunk.clear();
            chunk.extend((&mut *numbers).take(1024));
            if chunk.is_empty() {
                return;
            }
            self.read(&chunk, least_normal, |number| number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_does_not_depend_on_what_the_processor_has() {
        let mut numbers: Vec<f32> = (0..10_007).map(|n| (n as f32 * 0.37).sin() * 1e3).collect();
        for (at, number) in [(5, f32::NAN), (77, f32::INFINITY), (78, 0.0), (9_000, 1e-40)] {
            numbers[at] = number;
        }
        let mut by_processor = StatisticsReader::new(10_007);
        by_processor.read_f32(&numbers);
        let mut plain = StatisticsReader::new(10_007);
        plain.counts.all = 10_007;
        plain.shift = Some(numbers[0].into());
        plain.read_in_lanes(&numbers, f32::MIN_POSITIVE.into(), f64::from);
        assert_eq!(by_processor.statistics(), plain.statistics());
        let statistics = plain.statistics();
        assert_eq!(
            (statistics.nans, statistics.infinities, statistics.zeros, statistics.subnormals),
            (1, 1, 2, 1)
        );
    }

    /// Returns mean and standard deviation of numbers around 1 by their definition, in two passes.
    fn by_definition(numbers: &[f32]) -> (f64, f64) {
        let count = numbers.len() as f64;
        // The deviations from 1 have no rounding.
        let deviation = numbers.iter().map(|number| f64::from(*number) - 1.0).sum::<f64>() / count;
        let squares = numbers.iter().map(|it| (f64::from(*it) - 1.0 - deviation).powi(2));
        (1.0 + deviation, (squares.sum::<f64>() / count).sqrt())
    }

    #[test]
    fn deviations_that_are_small_beside_the_mean_keep_their_digits() {
        let ulp = f32::EPSILON;
        let numbers: Vec<f32> = (0..100_003).map(|n| 1.0 + (n % 3) as f32 * ulp).collect();
        let (mean, deviation) = by_definition(&numbers);
        let read = |numbers: &[f32]| {
            let mut reader = StatisticsReader::new(numbers.len() as u64);
            reader.read_f32(numbers);
            reader.statistics()
        };
        let close = |one: Option<f64>, other: f64| (one.expect("a number") / other - 1.0).abs();
        let whole = read(&numbers);
        assert!(close(whole.mean, mean) < 1e-15, "{whole:?} {mean}");
        assert!(close(whole.standard_deviation, deviation) < 1e-6, "{whole:?} {deviation}");
        let (first, rest) = numbers.split_at(40_000);
        let merged = read(first).merged(&read(rest));
        assert!(close(merged.standard_deviation, deviation) < 1e-6, "{merged:?} {deviation}");
        let other_order = read(rest).merged(&read(first));
        assert!(close(other_order.standard_deviation, deviation) < 1e-6, "{other_order:?}");
        let none = TensorStatistics::default();
        assert_eq!(none.merged(&whole).mean, whole.mean);
        assert_eq!(none.merged(&none).standard_deviation, None);
    }

    #[test]
    fn norms_that_are_too_large_are_read_back() {
        let mut reader = StatisticsReader::new(2);
        reader.read_f64(&[1e200, -1e200]);
        let statistics = reader.statistics();
        assert_eq!(statistics.l2_norm, f64::INFINITY);
        let json = serde_json::to_string(&statistics).expect("JSON");
        let read: TensorStatistics = serde_json::from_str(&json).expect("statistics");
        assert_eq!(read, statistics);
    }
}
