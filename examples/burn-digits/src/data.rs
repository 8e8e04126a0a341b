//! Handwritten digits: read, split and batched.

use std::io::Read;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_plugin::ProfiledBatcher;
use flate2::read::GzDecoder;

/// The data is part of the program, so that it runs anywhere.
const DIGITS: &[u8] = include_bytes!("../../data/digits.csv.gz");
/// Pixels along one side of an image.
pub const SIDE: usize = 8;
/// The brightest pixel.
const MAX_PIXEL: f32 = 16.0;

/// One handwritten digit.
#[derive(Debug, Clone)]
pub struct Digit {
    /// Row by row, from 0 (paper) to 1 (ink).
    pub pixels: [f32; SIDE * SIDE],
    /// What it shows, 0 to 9.
    pub class: u8,
}

/// Why the digits could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The compressed data is damaged.
    #[error("the digits cannot be unpacked: {0}")]
    Unpack(#[from] std::io::Error),
    /// A line is not 64 pixels and a class.
    #[error("line {line} of the digits is not 64 pixels and a class")]
    Line {
        /// Counted from 1.
        line: usize,
    },
}

/// All 1,797 digits, in the order of the file.
///
/// # Errors
///
/// [`DataError`] if the file that was built in is damaged.
pub fn digits() -> Result<Vec<Digit>, DataError> {
    let mut text = String::new();
    GzDecoder::new(DIGITS).read_to_string(&mut text)?;
    let lines = text.lines().enumerate();
    lines.map(|(index, line)| parse(line).ok_or(DataError::Line { line: index + 1 })).collect()
}

fn parse(line: &str) -> Option<Digit> {
    let mut numbers = line.split(',').map(|number| number.trim().parse::<f32>().ok());
    let mut pixels = [0.0; SIDE * SIDE];
    for pixel in &mut pixels {
        *pixel = numbers.next()?? / MAX_PIXEL;
    }
    let class = numbers.next()?? as u8;
    (numbers.next().is_none() && class < 10).then_some(Digit { pixels, class })
}

/// The digits in three parts that have no digit in common.
#[derive(Debug, Clone)]
pub struct Splits {
    /// 70 %, to learn from.
    pub train: Vec<Digit>,
    /// 10 %, to watch while learning.
    pub valid: Vec<Digit>,
    /// 20 %, to judge the result.
    pub test: Vec<Digit>,
}

/// Shuffles by `seed` (the same seed gives the same splits anywhere) and splits.
///
/// # Errors
///
/// As [`digits`].
pub fn splits(seed: u64) -> Result<Splits, DataError> {
    let mut train = digits()?;
    let mut random = SplitMix(seed);
    for last in (1..train.len()).rev() {
        let other = (random.next() % (last as u64 + 1)) as usize;
        train.swap(last, other);
    }
    let test = train.split_off(train.len() * 8 / 10);
    let valid = train.split_off(train.len() * 7 / 8);
    Ok(Splits { train, valid, test })
}

/// Vigna's SplitMix64: enough to shuffle with, and the same on every platform.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Several digits as tensors.
#[derive(Debug, Clone)]
pub struct Batch {
    /// `[batch, SIDE, SIDE]`
    pub images: Tensor<3>,
    /// `[batch]`
    pub classes: Tensor<1, Int>,
}

/// Makes tensors out of digits.
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

/// A loader of batches; in the digits' order, or shuffled anew each epoch by a seed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_digits_are_read_and_split_without_loss() {
        let splits = splits(1).expect("the data is built in");
        let sizes = [splits.train.len(), splits.valid.len(), splits.test.len()];
        assert_eq!(sizes, [1257, 180, 360]);
        let key = |digit: &Digit| (digit.class, digit.pixels.map(|pixel| (pixel * 16.0) as u8));
        let mut all: Vec<_> =
            [&splits.train, &splits.valid, &splits.test].into_iter().flatten().map(key).collect();
        let mut expected: Vec<_> = digits().expect("as above").iter().map(key).collect();
        all.sort_unstable();
        expected.sort_unstable();
        assert_eq!(all, expected);
        assert_eq!(expected.iter().filter(|(class, _)| *class == 0).count(), 178);
    }

    #[test]
    fn damaged_lines_are_refused() {
        let good = vec!["1"; 65].join(",");
        assert!(parse(&good).is_some());
        assert!(parse(&format!("{good},1")).is_none(), "too long");
        assert!(parse("1,2,3").is_none(), "too short");
        assert!(parse(&good.replacen('1', "x", 1)).is_none(), "no number");
        let (pixels, _) = good.rsplit_once(',').expect("it has commas");
        assert!(parse(&format!("{pixels},10")).is_none(), "no such class");
    }
}
