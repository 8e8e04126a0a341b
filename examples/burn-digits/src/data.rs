//! Handwritten digits as burn batches.

use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::{Device, Int, Tensor, TensorData};
pub use digits::{DataError, Digit, SIDE, Splits, digits, splits};
use mlprof_burn::ProfiledBatcher;

/// A batch of digits as tensors.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Shape `[batch, SIDE, SIDE]`.
    pub images: Tensor<3>,
    /// Shape `[batch]`.
    pub classes: Tensor<1, Int>,
}

/// Converts digits to tensors.
#[derive(Debug, Clone, Copy)]
pub struct DigitBatcher;

impl Batcher<Digit, Batch> for DigitBatcher {
    fn batch(&self, digits: Vec<Digit>, device: &Device) -> Batch {
        let pixels: Vec<f32> = digits.iter().flat_map(|digit| digit.pixels).collect();
        let classes: Vec<i32> = digits.iter().map(|digit| i32::from(digit.class)).collect();
        let count = digits.len();
        Batch {
            images: Tensor::from_data(TensorData::new(pixels, [count, SIDE, SIDE]), device),
            classes: Tensor::from_data(TensorData::new(classes, [count]), device),
        }
    }
}

/// Returns a loader of batches, in the digits' order or shuffled in each epoch by a seed.
pub fn loader(
    digits: Vec<Digit>,
    batch_size: usize,
    shuffle: Option<u64>,
) -> Arc<dyn DataLoader<Batch>> {
    let builder = DataLoaderBuilder::new(ProfiledBatcher::new(DigitBatcher)).batch_size(batch_size);
    let builder = match shuffle {
        Some(seed) => builder.shuffle(seed),
        None => builder,
    };
    builder.build(InMemDataset::new(digits))
}
