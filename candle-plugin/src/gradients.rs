//! The total norm of several gradients, computed on their device.

use candle_core::{DType, Result, Tensor};

/// Returns the square root of the sum of all squares, on the device of the first gradient, or
/// `None` without gradients. The sum is accumulated in at least 32 bits.
pub(crate) fn norm<'tensor>(
    gradients: impl Iterator<Item = &'tensor Tensor>,
) -> Result<Option<Tensor>> {
    let mut sum: Option<Tensor> = None;
    for gradient in gradients {
        let squares = wide(gradient)?.sqr()?.sum_all()?;
        sum = Some(match sum {
            None => squares,
            Some(sum) => {
                // The conversions only have an effect if variables differ in device or element
                // type.
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

/// Returns `gradient · min(1, max_norm / norm)`. The factor stays on the device. It is exactly 1 if
/// nothing must be clipped, so small gradients remain bit-identical.
pub(crate) fn scale_to_norm(gradient: &Tensor, norm: &Tensor, max_norm: f64) -> Result<Tensor> {
    // The inverse of a zero norm is infinite, which yields a factor of 1. `minimum` is avoided,
    // because it would be compiled for 16 element types in each crate that calls it.
    let factor = norm.recip()?.affine(max_norm, 0.0)?;
    let factor = factor.broadcast_minimum(&factor.ones_like()?)?;
    gradient.broadcast_mul(&factor.to_device(gradient.device())?.to_dtype(gradient.dtype())?)
}
