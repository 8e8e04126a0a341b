//! Digits as candle's tensors.

use candle_core::{Device, Result, Tensor};
use digits::{Digit, SIDE};
use mlprof_candle::MoveTo;

/// Several digits as tensors.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `[batch, 1, SIDE, SIDE]`, 32-bit.
    pub images: Tensor,
    /// `[batch]`, what each image shows.
    pub classes: Tensor,
}

impl Batch {
    /// Makes tensors, in the memory of the host.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn new(digits: &[Digit]) -> Result<Self> {
        let pixels: Vec<f32> = digits.iter().flat_map(|digit| digit.pixels).collect();
        let classes: Vec<u32> = digits.iter().map(|digit| u32::from(digit.class)).collect();
        let count = digits.len();
        Ok(Self {
            images: Tensor::from_vec(pixels, (count, 1, SIDE, SIDE), &Device::Cpu)?,
            classes: Tensor::from_vec(classes, count, &Device::Cpu)?,
        })
    }

    /// How many digits there are.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn size(&self) -> Result<usize> {
        self.classes.dim(0)
    }
}

impl MoveTo for Batch {
    fn move_to(self, device: &Device) -> Result<Self> {
        Ok(Self { images: self.images.move_to(device)?, classes: self.classes.move_to(device)? })
    }
}
