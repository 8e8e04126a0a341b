//! Digits as candle tensors.

use candle_core::{Device, Result, Tensor};
use digits::{Digit, SIDE};
use mlprof_candle::MoveTo;

/// A batch of digits as tensors.
#[derive(Debug, Clone)]
pub struct Batch {
    /// 32-bit images of shape `[batch, 1, SIDE, SIDE]`.
    pub images: Tensor,
    /// Class of each image, of shape `[batch]`.
    pub classes: Tensor,
}

impl Batch {
    /// Creates the tensors in host memory.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn new(digits: &[Digit]) -> Result<Self> {
        let pixels: Vec<f32> = digits.iter().flat_map(|digit| digit.pixels).collect();
        let classes: Vec<u32> = digits.iter().map(|digit| u32::from(digit.class)).collect();
        let count = digits.len();
        Ok(Self {
            images: Tensor::from_vec(pixels, (count, 1, SIDE, SIDE), &Device::Cpu)?,
            classes: Tensor::from_vec(classes, count, &Device::Cpu)?,
        })
    }

    /// Returns the number of digits.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn size(&self) -> Result<usize> {
        self.classes.dim(0)
    }
}

impl MoveTo for Batch {
    fn move_to(self, device: &Device) -> Result<Self> {
        Ok(Self { images: self.images.move_to(device)?, classes: self.classes.move_to(device)? })
    }
}
