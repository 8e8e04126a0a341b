//! Microseconds of a text as whole nanoseconds.

/// Nanoseconds, rounded to the nearest; `None` if the text is no number. Floating point would be wrong by
/// up to 128 ns where traces count microseconds from 1970.
pub(super) fn nanoseconds(microseconds: &str) -> Option<i64> {
    let text = microseconds.trim_matches('"');
    exact(text).or_else(|| {
        let value = text.parse::<f64>().ok()? * 1e3;
        (value.abs() < 9e18).then_some(value.round() as i64)
    })
}

/// Digits with at most a point.
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
        value = value * 10 + i64::from(digit - b'0');
    }
    for digit in fraction.iter().skip(3) {
        if !digit.is_ascii_digit() {
            return None;
        }
    }
    value += i64::from(fraction.get(3).is_some_and(|digit| *digit >= b'5'));
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
            // Of Unix time: floating point has steps of 250 ns here.
            ("1700000000123456.789", Some(1_700_000_000_123_456_789)),
            ("-1.0015", Some(-1_002)),
            ("0.00049", Some(0)),
            ("1.5e3", Some(1_500_000)),
            ("\"7.25\"", Some(7_250)),
            ("true", None),
            ("null", None),
            ("1e300", None),
        ];
        for (text, expected) in cases {
            assert_eq!(nanoseconds(text), expected, "{text}");
        }
    }
}
