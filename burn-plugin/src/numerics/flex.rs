//! Tensors of burn's Flex backend, whose numbers are in host memory.

use burn::backend::Flex;
use burn::tensor::{DType, Tensor, bf16, f16};
use mlprof_core::hook::{LEAST_NORMAL_F16, NumberReader, strided_offsets};

use super::LEAST_NORMAL_F32;

/// Reads the numbers of `tensor` without a copy. Returns `false` if it is not a Flex tensor or not
/// a floating-point tensor.
pub(super) fn read<const D: usize>(tensor: Tensor<D>, reader: &mut dyn NumberReader) -> bool {
    let Ok(tensor) = tensor.try_into_primitive::<Flex>() else { return false };
    let layout = tensor.layout();
    let piece = layout.contiguous_offsets();
    let places = || strided_offsets(layout.shape(), layout.strides());
    let at = |offset: isize| layout.start_offset().wrapping_add_signed(offset);
    macro_rules! each {
        ($number:ty, $least_normal:expr, $wide:expr) => {{
            let numbers = tensor.storage::<$number>();
            match piece {
                Some((start, end)) => {
                    reader.read_each(&mut numbers[start..end].iter().map($wide), $least_normal)
                }
                None => {
                    let mut all = places().map(|offset| &numbers[at(offset)]).map($wide);
                    reader.read_each(&mut all, $least_normal);
                }
            }
        }};
    }
    match (tensor.dtype(), piece) {
        (DType::F32, Some((start, end))) => reader.read_f32(&tensor.storage::<f32>()[start..end]),
        (DType::F64, Some((start, end))) => reader.read_f64(&tensor.storage::<f64>()[start..end]),
        (DType::F32, None) => each!(f32, LEAST_NORMAL_F32, |it: &f32| f64::from(*it)),
        (DType::F64, None) => each!(f64, f64::MIN_POSITIVE, |it: &f64| *it),
        (DType::F16, _) => each!(f16, LEAST_NORMAL_F16, |it: &f16| it.to_f64()),
        (DType::BF16, _) => each!(bf16, LEAST_NORMAL_F32, |it: &bf16| it.to_f64()),
        _ => return false,
    }
    true
}
