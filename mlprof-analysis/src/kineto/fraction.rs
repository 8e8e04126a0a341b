//! Rounding of ends to whole nanoseconds.
//!
//! Some recorders write times with more than nine digits after a second. Where a start and a
//! duration are rounded each for itself, slices that end at the same moment end 1 ns apart, and
//! cross each other.

use serde_json::value::RawValue;

/// Millionths of a nanosecond in a nanosecond.
const WHOLE: i64 = 1_000_000;

/// Returns the duration in nanoseconds from the rounded start to the rounded end of a slice whose
/// rounded duration is `rounded`. `start` and `duration` are texts in microseconds.
pub(super) fn to_rounded_end(
    start: Option<&RawValue>,
    duration: Option<&RawValue>,
    rounded: i64,
) -> i64 {
    let below = |value: Option<&RawValue>| below_nanosecond(value?.get());
    let (Some(start), Some(duration)) = (below(start), below(duration)) else { return rounded };
    let nearest = |part: i64| (part + WHOLE / 2) / WHOLE;
    let correction = nearest(start + duration) - nearest(start) - nearest(duration);
    rounded.saturating_add(correction).max(0)
}

/// Returns the digits of microseconds below a nanosecond, in millionths of a nanosecond; `None` for
/// a text that is negative or not of digits with a point.
fn below_nanosecond(microseconds: &str) -> Option<i64> {
    let text = microseconds.trim_matches('"').trim();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let are_digits = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(fraction) {
        return None;
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).skip(3).take(6);
    Some(digits.fold(0, |part, digit| part * 10 + i64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_end(start: &str, duration: &str, rounded: i64) -> i64 {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).expect("JSON");
        to_rounded_end(Some(&raw(start)), Some(&raw(duration)), rounded)
    }

    #[test]
    fn the_end_is_rounded_and_not_the_duration() {
        for (start, duration, rounded, expected) in [
            ("0.0004", "10.0004", 10_000, 10_001),
            ("0.0006", "10.0006", 10_001, 10_000),
            ("0.0005", "1.0004", 1_000, 1_000),
            ("0.0005", "1.0005", 1_001, 1_000),
            ("1700000000123456.7891", "0.0004", 0, 1),
            ("5", "7.25", 7_250, 7_250),
            ("\"5.0004\"", "\"7.0004\"", 7_000, 7_001),
            // A duration is never below 0.
            ("0.0009", "0.0001", 0, 0),
            // Nothing is known of these.
            ("-5.0004", "7.0004", 7_000, 7_000),
            ("5.0004e0", "7.0004", 7_000, 7_000),
        ] {
            assert_eq!(to_end(start, duration, rounded), expected, "{start} {duration}");
        }
        assert_eq!(to_rounded_end(None, None, 5), 5);
    }

    /// Both end at 10.0007 us.
    #[test]
    fn slices_that_end_together_do_not_cross() {
        let json = r#"{"traceEvents":[
            {"ph":"X","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":0.0004,"dur":10.0003},
            {"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":5.0002,"dur":5.0005}]}"#;
        let trace = crate::kineto::read(json.as_bytes()).expect("a trace");
        assert_eq!(trace.tracks.len(), 1);
        let ends: Vec<_> = trace.slices.iter().map(|slice| slice.end()).collect();
        assert_eq!(ends, [10_001, 10_001]);
        assert_eq!(trace.slices[1].parent(), Some(0));
    }
}
