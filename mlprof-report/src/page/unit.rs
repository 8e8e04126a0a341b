//! What cells hold.

use crate::number::{bytes, duration, grouped};

/// What the cells of a column hold, and how they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Names: on the left.
    Text,
    /// Text that is safe already, such as a picture.
    Markup,
    /// Whole numbers.
    Count,
    /// Times.
    Seconds,
    /// Sizes, which may be below 0.
    Bytes,
    /// Parts of a whole, 0 to 1.
    Share,
    /// By which part of itself something changed: with its sign.
    Change,
    /// Plain numbers, with two decimals.
    Number,
    /// Large numbers, with a letter for each thousand.
    Large,
}

impl Unit {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markup => "markup",
            Self::Count => "count",
            Self::Seconds => "seconds",
            Self::Bytes => "bytes",
            Self::Share => "share",
            Self::Change => "change",
            Self::Number => "number",
            Self::Large => "large",
        }
    }

    pub(super) const fn is_number(self) -> bool {
        !matches!(self, Self::Text | Self::Markup)
    }

    /// The number as the page writes it, here and in its scripts.
    pub(super) fn write(self, number: f64) -> String {
        match self {
            Self::Text | Self::Markup => String::new(),
            Self::Count if number < 0.0 => format!("-{}", grouped(-number as u64)),
            Self::Count => grouped(number as u64),
            Self::Seconds => duration(number),
            Self::Bytes if number < 0.0 => format!("-{}", bytes(-number as u64)),
            Self::Bytes => bytes(number as u64),
            Self::Share => format!("{:.1} %", 100.0 * number),
            Self::Change => format!("{:+.1} %", 100.0 * number),
            Self::Number => format!("{number:.2}"),
            Self::Large => large(number),
        }
    }
}

/// Three digits and a letter: `12.3 G`.
fn large(number: f64) -> String {
    const LETTERS: [&str; 6] = ["", " K", " M", " G", " T", " P"];
    let (mut number, mut power) = (number, 0);
    while number >= 999.5 && power + 1 < LETTERS.len() {
        number /= 1e3;
        power += 1;
    }
    let decimals = match number {
        _ if power == 0 => 0,
        ..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    };
    format!("{number:.decimals$}{}", LETTERS[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_units() {
        for (unit, number, text) in [
            (Unit::Count, 1_234.0, "1,234"),
            (Unit::Seconds, 0.012_34, "12.3 ms"),
            (Unit::Bytes, -2_048.0, "-2.00 KiB"),
            (Unit::Share, 0.123_4, "12.3 %"),
            (Unit::Change, 0.123_4, "+12.3 %"),
            (Unit::Change, -0.5, "-50.0 %"),
            (Unit::Number, 1.5, "1.50"),
            (Unit::Large, 12_345_678.0, "12.3 M"),
            (Unit::Large, 512.0, "512"),
        ] {
            assert_eq!(unit.write(number), text);
        }
    }
}
