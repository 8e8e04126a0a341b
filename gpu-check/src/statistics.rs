//! Medians, differences and number formatting.

/// Returns the median, or 0 without numbers.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.get(middle), sorted.len() % 2) {
        (None, _) => 0.0,
        (Some(one), 1) => *one,
        (Some(one), _) => f64::midpoint(sorted[middle - 1], *one),
    }
}

/// Returns the largest absolute value, or 0 without numbers.
pub fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |most, number| number.abs().max(most))
}

/// Returns the difference of `one` from `other`, relative to `other`. The result is infinite if
/// `other` is 0.
pub fn difference(one: f64, other: f64) -> f64 {
    if other == 0.0 { f64::INFINITY } else { (one - other).abs() / other }
}

/// Formats nanoseconds in a suitable unit.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds.abs() {
        size if size < 1e3 => format!("{nanoseconds:.0} ns"),
        size if size < 1e6 => format!("{:.2} µs", nanoseconds / 1e3),
        size if size < 1e9 => format!("{:.3} ms", nanoseconds / 1e6),
        _ => format!("{:.3} s", nanoseconds / 1e9),
    }
}

/// Formats a number with thousands separators, as in the profilers' notes.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    #[test]
    fn differences() {
        assert_eq!(largest(&[1.0, -4.0, 3.0]), 4.0);
        assert_eq!(difference(105.0, 100.0), 0.05);
        assert_eq!(difference(95.0, 100.0), 0.05);
        assert!(difference(1.0, 0.0).is_infinite());
    }

    #[test]
    fn numbers_in_words() {
        let times = [12.0, -1500.0, 2.5e6, 3e9].map(time);
        assert_eq!(times, ["12 ns", "-1.50 µs", "2.500 ms", "3.000 s"]);
        let numbers = [7, 999, 1000, 10_000_000].map(grouped);
        assert_eq!(numbers, ["7", "999", "1,000", "10,000,000"]);
    }
}
