//! Row limit of printed tables.

use std::str::FromStr;

use mlprof_report::LineCountRestriction;

/// Row limit: `10`, `0.1`, `10%` or `all`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit(pub LineCountRestriction);

/// The limit cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a number such as 10, a share such as 0.1 or 10%, or \"all\"")]
pub struct InvalidLimit;

impl FromStr for Limit {
    type Err = InvalidLimit;

    fn from_str(text: &str) -> Result<Self, InvalidLimit> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self(LineCountRestriction::default()));
        }
        if let Ok(lines) = text.parse() {
            return Ok(Self(LineCountRestriction::Lines(lines)));
        }
        let (number, whole) = match text.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text, 1.0),
        };
        let share = number.parse::<f64>().map_err(|_| InvalidLimit)? / whole;
        match (0.0..=1.0).contains(&share) {
            true => Ok(Self(LineCountRestriction::Share(share))),
            false => Err(InvalidLimit),
        }
    }
}

impl Limit {
    /// Returns the number of rows to print out of `rows`.
    pub(crate) fn of(self, rows: usize) -> usize {
        match self.0 {
            LineCountRestriction::Lines(lines) => lines.min(rows),
            LineCountRestriction::Share(share) => (rows as f64 * share + 0.5) as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shares_are_told_apart() {
        use LineCountRestriction::{Lines, Share};
        for (text, expected) in [
            ("10", Lines(10)),
            ("1", Lines(1)),
            ("1.0", Share(1.0)),
            (" 0.25 ", Share(0.25)),
            ("25%", Share(0.25)),
            ("12.5 %", Share(0.125)),
            ("ALL", Share(1.0)),
        ] {
            assert_eq!(text.parse(), Ok(Limit(expected)), "{text}");
        }
        for text in ["", "-1", "1.5", "101%", "NaN", "ten", "%"] {
            assert_eq!(text.parse::<Limit>(), Err(InvalidLimit), "{text}");
        }
    }

    #[test]
    fn a_share_is_rounded_as_python_does() {
        let limit = |text: &str| text.parse::<Limit>().expect("valid");
        assert_eq!(limit("0.1").of(76), 8);
        assert_eq!(limit("10").of(76), 10);
        assert_eq!(limit("100").of(76), 76);
        assert_eq!(limit("all").of(76), 76);
    }
}
