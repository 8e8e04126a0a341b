//! Reads and splits the handwritten digits.

use std::io::Read;

use flate2::read::GzDecoder;

use crate::random::SplitMix;

/// The compressed data is embedded in the program, so that it runs anywhere.
const DIGITS: &[u8] = include_bytes!("../../data/digits.csv.gz");
/// Pixels along one side of an image.
pub const SIDE: usize = 8;
/// Number of classes.
pub const CLASSES: usize = 10;
/// The maximum pixel value in the file.
const MAX_PIXEL: f32 = 16.0;

/// One handwritten digit.
#[derive(Debug, Clone, PartialEq)]
pub struct Digit {
    /// Pixels row by row, from 0 (paper) to 1 (ink).
    pub pixels: [f32; SIDE * SIDE],
    /// Class of the digit, 0 to 9.
    pub class: u8,
}

/// An error while reading the digits.
#[derive(thiserror::Error)]
pub enum DataError {
    /// The compressed data is damaged.
    #[error("cannot unpack the digits: {0}")]
    Unpack(#[from] std::io::Error),
    /// A line does not consist of 64 pixels and a class.
    #[error("cannot parse line {line} of the digits: it must have 64 pixels and a class")]
    Line {
        /// Line number, counted from 1.
        line: usize,
    },
}

mlprof_core::debug_as_display!(DataError);

/// Returns all 1,797 digits in file order.
///
/// # Errors
///
/// Returns [`DataError`] if the embedded file is damaged.
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
    (numbers.next().is_none() && usize::from(class) < CLASSES).then_some(Digit { pixels, class })
}

/// Three disjoint parts of the digits.
#[derive(Debug, Clone)]
pub struct Splits {
    /// 70 % of the digits, for training.
    pub train: Vec<Digit>,
    /// 10 % of the digits, for validation during training.
    pub valid: Vec<Digit>,
    /// 20 % of the digits, for the final test.
    pub test: Vec<Digit>,
}

/// Shuffles the digits by `seed` and splits them. The same seed gives the same splits on every
/// platform.
///
/// # Errors
///
/// Returns the errors of [`digits`].
pub fn splits(seed: u64) -> Result<Splits, DataError> {
    let mut train = digits()?;
    SplitMix::new(seed).shuffle(&mut train);
    let test = train.split_off(train.len() * 8 / 10);
    let valid = train.split_off(train.len() * 7 / 8);
    Ok(Splits { train, valid, test })
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

    #[test]
    fn a_seed_gives_the_same_splits_on_every_machine() {
        let splits = splits(42).expect("the data is built in");
        let first: Vec<u8> = splits.train.iter().take(8).map(|digit| digit.class).collect();
        assert_eq!(first, [9, 1, 1, 1, 7, 5, 2, 7]);
    }
}
