//! What is said of the numbers in a tensor.

use profiler_events::{NumberReader, Reduced};
use serde::{Deserialize, Serialize};

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
    /// Their mean.
    pub mean: Option<f64>,
    /// Their standard deviation, of all of them and not of a sample.
    pub standard_deviation: Option<f64>,
    /// The sum of their absolute values.
    pub l1_norm: f64,
    /// The root of the sum of their squares.
    pub l2_norm: f64,
    /// The smallest absolute value that is not 0.
    pub least_magnitude: Option<f64>,
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
        let moments = Moments { finite, sum: reduced.sum, squares: reduced.squares };
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
        let (own, others) = (self.finite() as f64, other.finite() as f64);
        let sum = self.mean.unwrap_or(0.0) * own + other.mean.unwrap_or(0.0) * others;
        let squares = self.l2_norm.powi(2) + other.l2_norm.powi(2);
        let moments = Moments { finite: self.finite() + other.finite(), sum, squares };
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

struct Moments {
    finite: u64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn mean(&self) -> Option<f64> {
        (self.finite > 0).then(|| self.sum / self.finite as f64)
    }

    fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some((self.squares / self.finite as f64 - mean * mean).max(0.0).sqrt())
    }
}

/// Numbers as a record has them: what is not finite is `None`.
pub fn finite_or_none(numbers: &[f64]) -> Vec<Option<f64>> {
    numbers.iter().map(|number| Some(*number).filter(|number| number.is_finite())).collect()
}

/// Makes [`TensorStatistics`] of a tensor's numbers, and a sample of them.
#[derive(Debug, Clone)]
pub struct StatisticsReader {
    lanes: Lanes,
    counts: Counts,
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
    sum: [f64; LANES],
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
            sum: zero,
            absolute: zero,
            squares: zero,
        }
    }
}

impl Lanes {
    /// Takes a number that is finite.
    #[inline(always)]
    fn take(&mut self, lane: usize, number: f64) {
        let magnitude = number.abs();
        self.minimum[lane] = if number < self.minimum[lane] { number } else { self.minimum[lane] };
        self.maximum[lane] = if number > self.maximum[lane] { number } else { self.maximum[lane] };
        let least = if magnitude == 0.0 { f64::INFINITY } else { magnitude };
        let known = self.least_magnitude[lane];
        self.least_magnitude[lane] = if least < known { least } else { known };
        self.sum[lane] += number;
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
        let moments = Moments { finite: all - nans - infinities, sum: sum(&lanes.sum), squares };
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

    /// Numbers of the tensor that are as far from each other as they can be, [`SAMPLE`] of them or all. What is not finite is
    /// `None`.
    pub fn sample(&self) -> Vec<Option<f64>> {
        finite_or_none(&self.sample)
    }

    /// Reads numbers that were of a narrower type before, whose smallest normal number is `least_normal`.
    pub fn read_widened(&mut self, numbers: &[f64], least_normal: f64) {
        self.read(numbers, least_normal, |number| number);
    }

    fn read<T: Copy>(&mut self, numbers: &[T], least_normal: f64, wide: impl Fn(T) -> f64) {
        self.read_sample(numbers, &wide);
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
                self.lanes.take(lane, number);
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
            self.lanes.take(0, number);
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
        plain.read_in_lanes(&numbers, f32::MIN_POSITIVE.into(), f64::from);
        assert_eq!(by_processor.statistics(), plain.statistics());
        let statistics = plain.statistics();
        assert_eq!(
            (statistics.nans, statistics.infinities, statistics.zeros, statistics.subnormals),
            (1, 1, 2, 1)
        );
    }
}
