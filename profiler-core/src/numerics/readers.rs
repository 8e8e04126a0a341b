//! What is read of a tensor besides its statistics.

use profiler_events::{NumberReader, TensorNumbers};
use xxhash_rust::xxh3::Xxh3Default;

use crate::report::numerics::StatisticsReader;

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

    pub(super) fn read_by(&self, reader: &mut StatisticsReader) {
        reader.read_widened(&self.numbers, self.least_normal);
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

/// Hashes numbers as [`RecordedTensor::hash`](crate::report::numerics::RecordedTensor::hash) says: in whatever pieces they come.
#[derive(Default)]
pub(super) struct HashReader {
    hasher: Xxh3Default,
}

impl HashReader {
    /// The hash of a tensor that was read before; `None` where it cannot be read.
    pub(super) fn of(tensor: &dyn TensorNumbers) -> Option<String> {
        let mut reader = Self::default();
        tensor.read_waiting(&mut reader).then(|| reader.digits())
    }

    /// In hexadecimal digits: many readers of JSON have no numbers of 64 bits.
    pub(super) fn digits(&self) -> String {
        format!("{:016x}", self.hasher.digest())
    }

    fn take(&mut self, numbers: impl Iterator<Item = f64>) {
        const NUMBERS: usize = 512;
        let mut bytes = [0; 8 * NUMBERS];
        let mut filled = 0;
        for number in numbers {
            // Which bits a NaN has is up to the processor.
            let bits = if number.is_nan() { f64::NAN.to_bits() } else { number.to_bits() };
            bytes[filled..filled + 8].copy_from_slice(&bits.to_le_bytes());
            filled += 8;
            if filled == bytes.len() {
                self.hasher.update(&bytes);
                filled = 0;
            }
        }
        self.hasher.update(&bytes[..filled]);
    }
}

impl NumberReader for HashReader {
    fn read_f32(&mut self, numbers: &[f32]) {
        self.take(numbers.iter().map(|number| f64::from(*number)));
    }

    fn read_f64(&mut self, numbers: &[f64]) {
        self.take(numbers.iter().copied());
    }

    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, _least_normal: f64) {
        self.take(numbers);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn hash(read: impl FnOnce(&mut HashReader)) -> String {
        let mut reader = HashReader::default();
        read(&mut reader);
        reader.digits()
    }

    /// The numbers are those of XXH3's own definition, of these bytes: on no machine may they change.
    #[test]
    fn hashes_are_those_of_the_definition() {
        assert_eq!(hash(|_| {}), "2d06800538d394c2");
        let bytes: Vec<u8> = (0..700).flat_map(|number| f64::from(number).to_le_bytes()).collect();
        let expected = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes));
        let numbers: Vec<f64> = (0..700).map(f64::from).collect();
        assert_eq!(hash(|reader| reader.read_f64(&numbers)), expected);
    }

    #[test]
    fn neither_pieces_nor_types_count_but_each_number_does() {
        let numbers: Vec<f32> = (0..1500).map(|number| number as f32 * 0.5 - 7.0).collect();
        let whole = hash(|reader| reader.read_f32(&numbers));
        let pieces = hash(|reader| numbers.chunks(7).for_each(|piece| reader.read_f32(piece)));
        let wide = hash(|reader| {
            reader.read_each(&mut numbers.iter().map(|number| f64::from(*number)), 0.0);
        });
        assert_eq!((&pieces, &wide), (&whole, &whole));
        let mut other = numbers.clone();
        other[1000] = 0.0;
        assert_ne!(hash(|reader| reader.read_f32(&other)), whole);
        let signed = [0.0_f32, -0.0].map(|zero| hash(|reader| reader.read_f32(&[zero])));
        assert_ne!(signed[0], signed[1]);
        let nan = f32::from_bits(f32::NAN.to_bits() | 5);
        let both = [f32::NAN, -nan].map(|nan| hash(|reader| reader.read_f32(&[nan])));
        assert_eq!(both[0], both[1]);
    }
}
