//! The norm of many gradients together, computed where they are.

use candle_core::{DType, Result, Tensor};

/// The root of the sum of all squares, on the device of the first; `None` of nothing. Added up with
/// at least 32 bits.
pub(crate) fn norm<'tensor>(
    gradients: impl Iterator<Item = &'tensor Tensor>,
) -> Result<Option<Tensor>> {
    let mut sum: Option<Tensor> = None;
    for gradient in gradients {
        let squares = wide(gradient)?.sqr()?.sum_all()?;
        sum = Some(match sum {
            None => squares,
            Some(sum) => {
                // Only where variables differ in device or width is there something to do here.
                (&sum + squares.to_device(sum.device())?.to_dtype(sum.dtype())?)?
            }
        });
    }
    sum.map(|sum| sum.sqrt()).transpose()
}

fn wide(tensor: &Tensor) -> Result<Tensor> {
    match tensor.dtype() {
        DType::F64 => Ok(tensor.clone()),
        _ => tensor.to_dtype(DType::F32),
    }
}

/// `gradient · min(1, max_norm / norm)`. The factor stays on the device; it is exactly 1 where
/// there is nothing to clip, so small gradients keep every bit.
pub(crate) fn scale_to_norm(gradient: &Tensor, norm: &Tensor, max_norm: f64) -> Result<Tensor> {
    // The inverse of a norm of 0 is infinite, and the minimum 1. Not by `minimum`, which is
    // compiled for 16 types in each crate that calls it.
    let factor = norm.recip()?.affine(max_norm, 0.0)?;
    let factor = factor.broadcast_minimum(&factor.ones_like()?)?;
    gradient.broadcast_mul(&factor.to_device(gradient.device())?.to_dtype(gradient.dtype())?)
}
