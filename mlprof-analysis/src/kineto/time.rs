//! Conversion of times from text in microseconds to whole nanoseconds.

use serde_json::value::RawValue;

/// Largest possible time in nanoseconds, which Unix time reaches in 2096. The sum of two such times
/// fits into 64 bits.
pub(super) const LATEST: i64 = 4_000_000_000_000_000_000;
/// Largest possible duration in nanoseconds, which is a year. Negative durations that wrapped
/// around would be 584 years.
const LONGEST: i64 = 366 * 24 * 3600 * 1_000_000_000;

/// Reason why a time or a duration is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTime {
    /// The value is missing or not a number.
    Missing,
    /// The value is a number outside the possible range.
    Impossible,
}

/// Parses a moment in nanoseconds.
pub(super) fn moment(value: Option<&RawValue>) -> Result<i64, NoTime> {
    within(value, -LATEST, LATEST)
}

/// Parses a duration in nanoseconds, at least 0.
pub(super) fn duration(value: Option<&RawValue>) -> Result<i64, NoTime> {
    within(value, 0, LONGEST)
}

fn within(value: Option<&RawValue>, least: i64, most: i64) -> Result<i64, NoTime> {
    let text = value.ok_or(NoTime::Missing)?.get();
    let time = nanoseconds(text).ok_or_else(|| match number(text) {
        Some(_) => NoTime::Impossible,
        None => NoTime::Missing,
    })?;
    if (least..=most).contains(&time) { Ok(time) } else { Err(NoTime::Impossible) }
}

fn number(text: &str) -> Option<f64> {
    text.trim_matches('"').trim().parse::<f64>().ok().filter(|it| it.is_finite())
}

/// Converts a text in microseconds to nanoseconds, rounded to nearest. `None` if the text is not a
/// number or the number is too large.
///
/// Floating point would be wrong by up to 128 ns for microseconds since 1970.
pub(super) fn nanoseconds(microseconds: &str) -> Option<i64> {
    let text = microseconds.trim_matches('"').trim();
    exact(text).or_else(|| {
        let value = number(text)? * 1e3;
        (value.abs() < 9e18).then_some(value.round() as i64)
    })
}

/// Parses digits with at most one decimal point, without rounding errors.
fn exact(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || whole.len() > 16 {
        return None;
    }
    let mut value = 0_i64;
    let fraction = fraction.as_bytes();
    let thousandths = fraction.iter().copied().chain([b'0'; 3]).take(3);
    for digit in whole.bytes().chain(thousandths) {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
    }
    for digit in fraction.iter().skip(3) {
        if !digit.is_ascii_digit() {
            return None;
        }
    }
    value = value.checked_add(i64::from(fraction.get(3).is_some_and(|digit| *digit >= b'5')))?;
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_nanosecond_is_lost() {
        let cases = [
            ("0", Some(0)),
            ("12", Some(12_000)),
            ("12.5", Some(12_500)),
            ("324545023708.898", Some(324_545_023_708_898)),
            // This is a Unix time, for which floating point has steps of 250 ns.
            ("1700000000123456.789", Some(1_700_000_000_123_456_789)),
            ("-1.0015", Some(-1_002)),
            ("0.00049", Some(0)),
            ("1.5e3", Some(1_500_000)),
            ("\"7.25\"", Some(7_250)),
            ("true", None),
            ("null", None),
            ("1e300", None),
            ("9999999999999999", None),
            ("9223372036854775.807", Some(i64::MAX)),
            ("18446744073709541.616", None),
            ("\"nan\"", None),
            ("\" 5 \"", Some(5_000)),
        ];
        for (text, expected) in cases {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn impossible_times_differ_from_missing_times() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
        for (text, expected) in [
            ("5", Ok(5_000)),
            ("-5", Err(NoTime::Impossible)),
            ("18446744073709541.616", Err(NoTime::Impossible)),
            ("1e300", Err(NoTime::Impossible)),
            ("9223372036854775.807", Err(NoTime::Impossible)),
            ("null", Err(NoTime::Missing)),
            ("\"inf\"", Err(NoTime::Missing)),
        ] {
            assert_eq!(duration(Some(&raw(text))), expected, "{text}");
        }
        assert_eq!(moment(Some(&raw("-5"))), Ok(-5_000));
        assert_eq!(moment(Some(&raw("9999999999999999"))), Err(NoTime::Impossible));
        assert_eq!(moment(None), Err(NoTime::Missing));
    }
}
