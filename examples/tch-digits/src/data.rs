//! Digits as tensors.

use digits::{Digit, SIDE};
use mlprof_tch::MoveTo;
use tch::{Device, TchError, Tensor};

/// A batch of digits as tensors.
#[derive(Debug)]
pub struct Batch {
    /// Shape `[batch, 1, SIDE, SIDE]`.
    pub images: Tensor,
    /// Shape `[batch]`.
    pub classes: Tensor,
}

impl Batch {
    /// Creates the tensors on the CPU.
    ///
    /// # Errors
    ///
    /// Returns torch's error, for example if memory is exhausted.
    pub fn new(digits: &[Digit]) -> Result<Self, TchError> {
        let pixels: Vec<f32> = digits.iter().flat_map(|digit| digit.pixels).collect();
        let classes: Vec<i64> = digits.iter().map(|digit| i64::from(digit.class)).collect();
        let shape = [digits.len() as i64, 1, SIDE as i64, SIDE as i64];
        let images = Tensor::f_from_slice(&pixels)?.f_view(shape)?;
        Ok(Self { images, classes: Tensor::f_from_slice(&classes)? })
    }
}

impl MoveTo for Batch {
    fn move_to(self, device: Device) -> Result<Self, TchError> {
        let (images, classes) = (self.images, self.classes).move_to(device)?;
        Ok(Self { images, classes })
    }
}
