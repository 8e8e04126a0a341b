//! What is read of a tensor besides its statistics.

use profiler_events::NumberReader;

/// Whether all numbers are finite.
#[derive(Default)]
pub(super) struct FiniteReader {
    is_not: bool,
}

/// So many numbers are looked at together.
const CHUNK: usize = 4096;

impl FiniteReader {
    pub(super) fn is_finite(&self) -> bool {
        !self.is_not
    }
}

/// 0 times a number is NaN if that is NaN or infinite, and then so is any sum with it.
macro_rules! all_finite {
    ($numbers:expr, $zero:literal) => {
        $numbers.chunks(CHUNK).all(|chunk| {
            let mut lanes = [$zero; 16];
            let mut parts = chunk.chunks_exact(16);
            for part in &mut parts {
                for (lane, number) in lanes.iter_mut().zip(part) {
                    *lane += number * $zero;
                }
            }
            let rest = parts.remainder().iter().map(|number| number * $zero);
            lanes.into_iter().chain(rest).all(|sum| sum == $zero)
        })
    };
}

impl NumberReader for FiniteReader {
    fn read_f32(&mut self, numbers: &[f32]) {
        self.is_not = self.is_not || !all_finite!(numbers, 0.0_f32);
    }

    fn read_f64(&mut self, numbers: &[f64]) {
        self.is_not = self.is_not || !all_finite!(numbers, 0.0_f64);
    }

    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, _least_normal: f64) {
        for number in numbers {
            self.is_not |= !number.is_finite();
        }
    }
}

/// Keeps the numbers, to subtract them from later ones.
#[derive(Default)]
pub(super) struct CopyReader {
    numbers: Vec<f64>,
    least_normal: f64,
}

impl CopyReader {
    pub(super) fn numbers(self) -> Vec<f64> {
        self.numbers
    }

    /// Without what they were before, if that is known of all of them.
    pub(super) fn less(mut self, before: &[f64]) -> Self {
        if before.len() == self.numbers.len() {
            self.numbers.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
        }
        self
    }

    pub(super) fn read_by(&self, reader: &mut dyn NumberReader) {
        reader.read_each(&mut self.numbers.iter().copied(), self.least_normal);
    }
}

impl NumberReader for CopyReader {
    fn read_f32(&mut self, numbers: &[f32]) {
        self.least_normal = f32::MIN_POSITIVE.into();
        self.numbers.extend(numbers.iter().map(|number| f64::from(*number)));
    }

    fn read_f64(&mut self, numbers: &[f64]) {
        self.least_normal = f64::MIN_POSITIVE;
        self.numbers.extend_from_slice(numbers);
    }

    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, least_normal: f64) {
        self.least_normal = least_normal;
        self.numbers.extend(numbers);
    }
}
