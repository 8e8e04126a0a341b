//! Units of columns and their number formats.

use crate::number::{bytes, duration, grouped, share, time_cell};

/// Unit of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Names and words.
    Text,
    /// Pictures, which only pages show.
    Markup,
    /// Integers.
    Count,
    /// Times in seconds.
    Seconds,
    /// Times in seconds, with this number of significant digits in text, where their units are
    /// aligned.
    Digits(usize),
    /// Sizes in bytes, which may be negative.
    Bytes,
    /// Shares, 0 to 1.
    Share,
    /// Shares, 0 to 1, which text shows without a percent sign.
    Percent,
    /// Relative changes, with their sign.
    Change,
    /// Plain numbers with two decimals.
    Number,
    /// Large numbers with a metric suffix.
    Large,
}

impl Unit {
    /// Returns the name of the unit for scripts and JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Markup => "markup",
            Self::Count => "count",
            Self::Seconds | Self::Digits(_) => "seconds",
            Self::Bytes => "bytes",
            Self::Share | Self::Percent => "share",
            Self::Change => "change",
            Self::Number => "number",
            Self::Large => "large",
        }
    }

    pub(crate) const fn is_number(self) -> bool {
        !matches!(self, Self::Text | Self::Markup)
    }

    /// Formats a number for pages and their scripts.
    pub(crate) fn write(self, number: f64) -> String {
        match self {
            Self::Text | Self::Markup => String::new(),
            Self::Count if number < 0.0 => format!("-{}", grouped(-number as u64)),
            Self::Count => grouped(number as u64),
            Self::Seconds | Self::Digits(_) => duration(number),
            Self::Bytes if number < 0.0 => format!("-{}", bytes(-number as u64)),
            Self::Bytes => bytes(number as u64),
            Self::Share | Self::Percent => format!("{:.1} %", 100.0 * number),
            Self::Change => format!("{:+.1} %", 100.0 * number),
            Self::Number => format!("{number:.2}"),
            Self::Large => large(number),
        }
    }

    /// Formats a number for text tables.
    pub(crate) fn write_text(self, number: f64) -> String {
        match self {
            Self::Digits(digits) => time_cell(number, digits),
            Self::Share => share(number, 1.0),
            Self::Percent => share(number, 1.0).trim_end_matches(" %").to_owned(),
            Self::Change if number >= 9.0 => format!("× {:.0}", 1.0 + number),
            Self::Change if number >= 2.0 => format!("× {:.1}", 1.0 + number),
            _ => self.write(number),
        }
    }
}

/// Formats a number with three digits and a metric suffix: `12.3 G`.
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
