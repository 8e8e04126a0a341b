//! Rounding of slice ends to whole nanoseconds.
//!
//! Some recorders write times with more than nine digits after the second. If start and duration
//! were rounded separately, slices that end at the same moment could end 1 ns apart and cross each
//! other.

use serde_json::value::RawValue;

/// Millionths of a nanosecond in one nanosecond.
const WHOLE: i64 = 1_000_000;

/// Returns the duration in nanoseconds from the rounded start to the rounded end of a slice.
/// `start` and `duration` are texts in microseconds, and `rounded` is the rounded duration.
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

/// Returns the digits below one nanosecond of a text in microseconds, in millionths of a
/// nanosecond. `None` if the text is negative or not a decimal number.
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
            // A duration is at least 0.
            ("0.0009", "0.0001", 0, 0),
            // These texts are not plain decimal numbers, so the rounded duration stays.
            ("-5.0004", "7.0004", 7_000, 7_000),
            ("5.0004e0", "7.0004", 7_000, 7_000),
        ] {
            assert_eq!(to_end(start, duration, rounded), expected, "{start} {duration}");
        }
        assert_eq!(to_rounded_end(None, None, 5), 5);
    }

    /// Checks that two slices that both end at 10.0007 µs do not cross.
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
