//! Tensors in host memory, for all frameworks.

use std::marker::PhantomData;

use crate::{DType, NumberReader, TensorNumbers, strided_offsets};

/// Smallest positive normal `f16`, 2⁻¹⁴.
pub const LEAST_NORMAL_F16: f64 = 6.103_515_625e-5;

/// A tensor in host memory, described by the address of its first element, its element type, its
/// shape and its strides.
#[derive(Debug, Clone, Copy)]
pub struct HostTensor<'tensor> {
    address: *const u8,
    dtype: DType,
    shape: &'tensor [i64],
    strides: &'tensor [i64],
    memory: PhantomData<&'tensor [u8]>,
}

impl<'tensor> HostTensor<'tensor> {
    /// Creates a tensor whose first element is at `address`. `strides` are counted in elements.
    ///
    /// # Safety
    ///
    /// The caller guarantees:
    ///
    /// - `shape` and `strides` have the same length, and no side is below 0.
    /// - For each position in the shape, memory holds an element of this type at the address given
    ///   by the strides.
    /// - That memory stays unchanged while the tensor exists.
    ///
    /// If the shape has no positions, `address` may have any value.
    pub const unsafe fn new(
        address: *const u8,
        dtype: DType,
        shape: &'tensor [i64],
        strides: &'tensor [i64],
    ) -> Self {
        Self { address, dtype, shape, strides, memory: PhantomData }
    }

    /// Returns the number of elements.
    fn count(&self) -> usize {
        self.shape.iter().product::<i64>() as usize
    }

    /// Returns `true` if the elements are contiguous in memory, in row-major order.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        self.shape.iter().zip(self.strides).rev().all(|(side, stride)| {
            let is_next = *side == 1 || *stride == expected;
            expected *= side;
            is_next
        })
    }

    fn whole<T>(&self) -> Option<&'tensor [T]> {
        let (address, count) = (self.address.cast::<T>(), self.count());
        if count == 0 {
            return Some(&[]);
        }
        let is_slice = self.is_contiguous() && address.is_aligned() && !address.is_null();
        // SAFETY: by the contract of `new`, `count` elements of type `T` lie at `address` and stay
        // unchanged for `'tensor`. The condition above ensures that they are contiguous, aligned
        // and not null. Callers choose a `T` that matches the element type and for which all bit
        // patterns are valid.
        is_slice.then(|| unsafe { std::slice::from_raw_parts(address, count) })
    }

    fn each<T: Copy>(
        &self,
        reader: &mut dyn NumberReader,
        least_normal: f64,
        wide: impl Fn(T) -> f64,
    ) {
        if let Some(numbers) = self.whole::<T>() {
            return reader.read_each(&mut numbers.iter().map(|it| wide(*it)), least_normal);
        }
        let shape: Vec<usize> = self.shape.iter().map(|side| *side as usize).collect();
        let strides: Vec<isize> = self.strides.iter().map(|stride| *stride as isize).collect();
        let first = self.address.cast::<T>();
        let mut all = strided_offsets(&shape, &strides).map(|offset| {
            // SAFETY: `offset` belongs to a position of the tensor, where an element is stored by
            // the contract of `new`. All bit patterns are valid for `T`. The read may be unaligned.
            wide(unsafe { first.offset(offset).read_unaligned() })
        });
        reader.read_each(&mut all, least_normal);
    }
}

impl TensorNumbers for HostTensor<'_> {
    fn element_type(&self) -> &'static str {
        self.dtype.name()
    }

    fn shape(&self) -> Vec<u64> {
        self.shape.iter().map(|side| side.cast_unsigned()).collect()
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        let f32_least = f64::from(f32::MIN_POSITIVE);
        match self.dtype {
            DType::Float32 => match self.whole::<f32>() {
                Some(numbers) => reader.read_f32(numbers),
                None => self.each::<f32>(reader, f32_least, f64::from),
            },
            DType::Float64 => match self.whole::<f64>() {
                Some(numbers) => reader.read_f64(numbers),
                None => self.each::<f64>(reader, f64::MIN_POSITIVE, |number| number),
            },
            DType::Float16 => self.each::<u16>(reader, LEAST_NORMAL_F16, f16_value),
            DType::BFloat16 => self.each::<u16>(reader, f32_least, bf16_value),
            DType::UInt8 | DType::Bool => self.each::<u8>(reader, 0.0, f64::from),
            DType::Int8 => self.each::<i8>(reader, 0.0, f64::from),
            DType::Int16 => self.each::<i16>(reader, 0.0, f64::from),
            DType::UInt16 => self.each::<u16>(reader, 0.0, f64::from),
            DType::Int32 => self.each::<i32>(reader, 0.0, f64::from),
            DType::UInt32 => self.each::<u32>(reader, 0.0, f64::from),
            DType::Int64 => self.each::<i64>(reader, 0.0, |number| number as f64),
            DType::UInt64 => self.each::<u64>(reader, 0.0, |number| number as f64),
            _ => return false,
        }
        true
    }
}

/// Converts a 16-bit IEEE 754 number: one sign bit, five exponent bits and ten fraction bits.
fn f16_value(bits: u16) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        exponent => (1.0 + fraction / 1024.0) * 2f64.powi(exponent - 15),
    }
}

/// Converts a `bf16`, which is the upper half of an `f32`.
fn bf16_value(bits: u16) -> f64 {
    f32::from_bits(u32::from(bits) << 16).into()
}

/// All inputs of an op as one sequence: the elements of several tensors, followed by numbers that
/// belong to no tensor. It can be read only if all tensors can be read.
#[derive(Clone, Copy)]
pub struct AllNumbers<'all> {
    /// The tensors.
    pub tensors: &'all [&'all dyn TensorNumbers],
    /// Numbers that do not belong to a tensor.
    pub numbers: &'all [f64],
}
crate::debug_as_name!([] AllNumbers<'_>);

impl TensorNumbers for AllNumbers<'_> {
    /// Returns the element type of the first tensor.
    fn element_type(&self) -> &'static str {
        self.tensors.first().map_or("f64", |first| first.element_type())
    }

    /// Returns the total number of elements.
    fn shape(&self) -> Vec<u64> {
        let count = |tensor: &&dyn TensorNumbers| tensor.shape().iter().product::<u64>();
        vec![self.tensors.iter().map(count).sum::<u64>() + self.numbers.len() as u64]
    }

    fn read(&self, reader: &mut dyn NumberReader) -> bool {
        reader.read_f64(self.numbers);
        self.tensors.iter().all(|tensor| tensor.read(reader))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Kept(Vec<f64>);

    impl NumberReader for Kept {
        fn read_f32(&mut self, numbers: &[f32]) {
            self.0.extend(numbers.iter().map(|number| f64::from(*number)));
        }
        fn read_f64(&mut self, numbers: &[f64]) {
            self.0.extend(numbers);
        }
        fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, _least_normal: f64) {
            self.0.extend(numbers);
        }
    }

    fn read<T>(numbers: &[T], dtype: DType, shape: &[i64], strides: &[i64]) -> Vec<f64> {
        // SAFETY: the tests pass shapes and strides of equal length that stay within `numbers`.
        // `numbers` outlives the tensor.
        let tensor =
            unsafe { HostTensor::new(numbers.as_ptr().cast::<u8>(), dtype, shape, strides) };
        let mut kept = Kept::default();
        assert!(tensor.read(&mut kept));
        kept.0
    }

    #[test]
    fn numbers_are_read_in_the_order_of_their_places_however_they_lie() {
        let numbers = [0_f32, 1., 2., 3., 4., 5.];
        let all = |shape: &[i64], strides: &[i64]| read(&numbers, DType::Float32, shape, strides);
        assert_eq!(all(&[2, 3], &[3, 1]), [0., 1., 2., 3., 4., 5.]);
        assert_eq!(all(&[3, 2], &[1, 3]), [0., 3., 1., 4., 2., 5.]);
        assert_eq!(all(&[2, 1, 3], &[3, 99, 1]), [0., 1., 2., 3., 4., 5.]);
        assert_eq!(all(&[2, 2], &[0, 1]), [0., 1., 0., 1.]);
        assert_eq!(all(&[], &[]), [0.]);
        assert_eq!(all(&[0, 7], &[7, 1]), [0.; 0]);
        // The numbers are unaligned, as in a memory-mapped file.
        let bytes: Vec<u8> =
            std::iter::once(0).chain(numbers.iter().flat_map(|it| it.to_ne_bytes())).collect();
        assert_eq!(read(&bytes[1..], DType::Float32, &[6], &[1]), [0., 1., 2., 3., 4., 5.]);
    }

    #[test]
    fn numbers_of_16_bits_are_what_the_others_say() {
        let f16 = [0x3c00_u16, 0xc000, 0x7bff, 0x0001, 0x8000, 0x7c00];
        let expected = [1.0, -2.0, 65_504.0, 2f64.powi(-24), 0.0, f64::INFINITY];
        assert_eq!(read(&f16, DType::Float16, &[6], &[1]), expected);
        assert!(f16_value(0x7e00).is_nan() && bf16_value(0x7fc0).is_nan());
        assert_eq!(read(&[0x3f80_u16, 0xc000], DType::BFloat16, &[2], &[1]), [1.0, -2.0]);
    }

    #[test]
    fn all_inputs_are_read_as_one() {
        let numbers = [1_f32, 2.];
        // SAFETY: the shape and strides match the numbers, which outlive both tensors. The elements
        // of the second tensor are not read.
        let (known, unknown) = unsafe {
            let address = numbers.as_ptr().cast::<u8>();
            (
                HostTensor::new(address, DType::Float32, &[2], &[1]),
                HostTensor::new(address, DType::Quantized, &[2], &[1]),
            )
        };
        let both = AllNumbers { tensors: &[&known, &known], numbers: &[f64::INFINITY] };
        let mut kept = Kept::default();
        assert!(both.read(&mut kept));
        assert_eq!(kept.0, [f64::INFINITY, 1., 2., 1., 2.]);
        assert_eq!((both.element_type(), both.shape()), ("f32", vec![5]));
        let some = AllNumbers { tensors: &[&known, &unknown], numbers: &[] };
        assert!(!some.read(&mut kept), "one of them is not known");
    }
}
