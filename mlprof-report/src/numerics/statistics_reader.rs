//! Single-pass computation of a tensor's statistics and sample.

use mlprof_events::NumberReader;

use super::statistics::{Moments, TensorStatistics, sample_every, sampled_numbers};

/// Computes [`TensorStatistics`] and a sample of a tensor's numbers.
#[derive(Debug, Clone)]
pub struct StatisticsReader {
    lanes: Lanes,
    counts: Counts,
    /// First finite number, the reference value of the deviations.
    shift: Option<f64>,
    /// Sampling interval: one of this many numbers is in the sample.
    every: u64,
    /// Count of numbers to skip before the next one of the sample.
    until_next: u64,
    sample: Vec<f64>,
}

/// Number of independent partial sums, which the processor can compute in parallel.
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
    /// Adds a finite number.
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
    /// Creates a reader for a tensor of `count` numbers, which determines the sampling interval.
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

    /// Creates a reader for a tensor of this shape.
    pub fn of_shape(shape: &[u64]) -> Self {
        Self::new(shape.iter().product())
    }

    /// Returns the statistics of the numbers read.
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

    /// Returns the evenly spaced sample of at most [`SAMPLE`](super::SAMPLE) numbers. NaN is
    /// `None`.
    pub fn sample(&self) -> Vec<Option<f64>> {
        sampled_numbers(&self.sample)
    }

    /// Reads numbers that were widened from a narrower type with the smallest normal number
    /// `least_normal`.
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
            // SAFETY: `read_by_avx2` requires only AVX2. The check above shows that the processor
            // supports it.
            return unsafe { self.read_by_avx2(numbers, least_normal, wide) };
        }
        self.read_in_lanes(numbers, least_normal, wide);
    }

    /// Reads the same numbers in the same order with AVX2. It processes four numbers per
    /// instruction instead of two, independent of the program's target features.
    ///
    /// # Safety
    ///
    /// The processor must support AVX2.
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
            // If the sum is finite, all its numbers are finite. A sum that overflows only leads to
            // the slower path. The additions are paired so that they do not depend on each other.
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
    fn statistics_do_not_depend_on_processor_features() {
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

    /// Returns the mean and standard deviation of numbers around 1 by their definition, in two
    /// passes.
    fn by_definition(numbers: &[f32]) -> (f64, f64) {
        let count = numbers.len() as f64;
        // The deviations from 1 have no rounding errors.
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
