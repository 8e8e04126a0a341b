//! Readers of tensor values for everything except statistics.

use mlprof_events::{NumberReader, TensorNumbers};
use xxhash_rust::xxh3::Xxh3Default;

use crate::report::numerics::{SAMPLE, Sketcher, StatisticsReader};

/// Checks whether all values are finite.
#[derive(Default)]
pub(super) struct FiniteReader {
    is_not: bool,
}

/// Number of values per chunk.
const CHUNK: usize = 4096;

impl FiniteReader {
    pub(super) fn is_finite(&self) -> bool {
        !self.is_not
    }
}

/// Multiplies each value by 0. The result is NaN for NaN and infinite values, and any sum with it
/// is also NaN.
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

/// Copies the values, so that they can be subtracted from later ones.
#[derive(Default)]
pub(super) struct CopyReader {
    numbers: Vec<f64>,
    least_normal: f64,
}

impl CopyReader {
    pub(super) fn numbers(self) -> Vec<f64> {
        self.numbers
    }

    /// Subtracts the values in `before`, if it has the same length. The difference is not stored in
    /// the tensor's type, so it never counts as subnormal.
    pub(super) fn less(mut self, before: &[f64]) -> Self {
        if before.len() == self.numbers.len() {
            self.numbers.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
            self.least_normal = 0.0;
        }
        self
    }

    /// Returns the fingerprint of the copied values.
    pub(super) fn fingerprint(&self) -> Fingerprint {
        let mut reader = HashReader::default();
        reader.take(self.numbers.iter().copied());
        reader.fingerprint()
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

/// Fields of a record that represent all values of a tensor.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Fingerprint {
    /// Value for [`RecordedTensor::hash`](crate::report::numerics::RecordedTensor::hash).
    pub(super) hash: Option<String>,
    /// Value for
    /// [`RecordedTensor::not_finite_hash`][hash].
    ///
    /// [hash]: crate::report::numerics::RecordedTensor::not_finite_hash
    pub(super) not_finite_hash: Option<String>,
    /// Value for [`RecordedTensor::sketch`](crate::report::numerics::RecordedTensor::sketch).
    pub(super) sketch: Vec<f64>,
}

/// Number of values to hash together, a multiple of a sketch's block size.
const HASHED: usize = 512;

/// Computes the [`Fingerprint`] of values that arrive in pieces of any size.
#[derive(Default)]
pub(super) struct HashReader {
    hasher: Xxh3Default,
    /// Hash of non-finite values. `Some` after the first such value.
    not_finite: Option<Box<Xxh3Default>>,
    sketcher: Sketcher,
    /// Values that are not hashed yet, fewer than [`HASHED`].
    pending: Vec<f64>,
    /// Number of hashed values.
    count: u64,
}

impl HashReader {
    /// Returns the fingerprint of a tensor, which may have to be copied from its device. The
    /// fingerprint is empty if the tensor cannot be read.
    pub(super) fn of(tensor: &dyn TensorNumbers) -> Fingerprint {
        let mut reader = Self::default();
        match tensor.read_waiting(&mut reader) {
            true => reader.fingerprint(),
            false => Fingerprint::default(),
        }
    }

    /// Returns the fingerprint of all values read. There is no sketch for a small tensor, because
    /// its sample contains all values.
    pub(super) fn fingerprint(mut self) -> Fingerprint {
        self.flush();
        let sums = Some(self.sketcher.sums())
            .filter(|sums| self.count > SAMPLE as u64 && sums.iter().all(|sum| sum.is_finite()));
        // The hash is written in hexadecimal, because many JSON readers do not support 64-bit
        // integers.
        let digits = |hasher: &Xxh3Default| format!("{:016x}", hasher.digest());
        Fingerprint {
            hash: Some(digits(&self.hasher)),
            not_finite_hash: self.not_finite.as_deref().map(digits),
            sketch: sums.unwrap_or_default(),
        }
    }

    fn take(&mut self, numbers: impl Iterator<Item = f64>) {
        for number in numbers {
            // NaNs are normalised, because their bits depend on the processor.
            self.pending.push(if number.is_nan() { f64::NAN } else { number });
            if self.pending.len() == HASHED {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let mut bytes = [0; 8 * HASHED];
        let numbers = bytes.as_chunks_mut::<8>().0;
        for (bytes, number) in numbers.iter_mut().zip(&self.pending) {
            *bytes = number.to_le_bytes();
        }
        self.hasher.update(&bytes[..8 * self.pending.len()]);
        self.sketcher.add(&self.pending);
        if self.pending.iter().any(|number| !number.is_finite()) {
            self.hash_not_finite();
        }
        self.count += self.pending.len() as u64;
        self.pending.clear();
    }

    fn hash_not_finite(&mut self) {
        let hasher = self.not_finite.get_or_insert_default();
        for (position, number) in (self.count..).zip(&self.pending) {
            let kind = match *number {
                f64::INFINITY => 1,
                f64::NEG_INFINITY => 2,
                number if number.is_nan() => 0,
                _ => continue,
            };
            hasher.update(&position.to_le_bytes());
            hasher.update(&[kind]);
        }
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
    use crate::hook;

    fn hash(read: impl FnOnce(&mut HashReader)) -> String {
        let mut reader = HashReader::default();
        read(&mut reader);
        reader.fingerprint().hash.expect("a hash")
    }

    /// Hashes must follow the definition of XXH3 on every machine, so the test compares them with
    /// known values.
    #[test]
    fn hashes_are_those_of_the_definition() {
        assert_eq!(hash(|_| {}), "2d06800538d394c2");
        let bytes: Vec<u8> = (0..700).flat_map(|number| f64::from(number).to_le_bytes()).collect();
        let expected = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes));
        let numbers: Vec<f64> = (0..700).map(f64::from).collect();
        assert_eq!(hash(|reader| reader.read_f64(&numbers)), expected);
    }

    /// The values of these parameters are 2⁻²⁰ apart, which is a subnormal `f16`.
    #[test]
    fn an_update_is_a_difference_and_not_subnormal_in_the_type_of_its_parameter() {
        let read = |numbers: [f64; 2]| {
            let mut reader = CopyReader::default();
            reader.read_each(&mut numbers.into_iter(), hook::LEAST_NORMAL_F16);
            reader
        };
        let ulp = f64::powi(2.0, -20);
        let update = read([0.001 + ulp, 0.0]).less(&read([0.001, ulp]).numbers());
        let mut reader = StatisticsReader::new(2);
        update.read_by(&mut reader);
        let statistics = reader.statistics();
        assert_eq!((statistics.subnormals, statistics.zeros), (0, 0));
        assert!((statistics.maximum.expect("a number") - ulp).abs() < 1e-12, "{statistics:?}");
        let same = read([0.001, ulp]).less(&read([0.001 - ulp, 2.0 * ulp]).numbers());
        assert_ne!(read([0.001, ulp]).fingerprint(), same.fingerprint());
        assert!(same.fingerprint().hash.is_some());
    }

    #[test]
    fn a_sketch_is_of_more_numbers_than_a_sample_has() {
        let sketch = |numbers: &[f32]| {
            let mut reader = HashReader::default();
            numbers.chunks(301).for_each(|piece| reader.read_f32(piece));
            reader.fingerprint().sketch
        };
        assert!(sketch(&[1.0; SAMPLE]).is_empty());
        let numbers: Vec<f32> = (0..1500).map(|number| number as f32 * 0.5 - 7.0).collect();
        let mut expected = Sketcher::default();
        let wide: Vec<f64> = numbers.iter().map(|number| f64::from(*number)).collect();
        expected.add(&wide);
        assert_eq!(sketch(&numbers), expected.sums());
    }

    #[test]
    fn positions_and_kinds_of_numbers_that_are_not_finite_count_and_no_others_do() {
        let hash = |position: usize, number: f64, others: f64| {
            let mut numbers = vec![others; 1200];
            numbers[position] = number;
            let mut reader = HashReader::default();
            numbers.chunks(7).for_each(|piece| reader.read_f64(piece));
            reader.fingerprint().not_finite_hash
        };
        let nan = hash(700, f64::NAN, 1.0);
        assert!(nan.is_some() && nan == hash(700, -f64::NAN, 2.0));
        let others = [hash(701, f64::NAN, 1.0), hash(700, f64::INFINITY, 1.0)];
        let negative = hash(700, f64::NEG_INFINITY, 1.0);
        assert!(others.iter().all(|other| *other != nan && *other != negative));
        assert_eq!(hash(700, 3.0, 1.0), None);
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
