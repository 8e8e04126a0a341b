//! Number formats of reports.
//!
//! [`five_digits`] formats numbers as Python's `format(x, '.5')` does, for tables that Python users
//! know. [`duration`], [`bytes`], [`share`] and [`grouped`] are designed for readability.

/// Formats `value` as Python's `format(value, '.5')` does. The result has five significant digits,
/// and trailing zeros are dropped except for one decimal. The notation is scientific from 10 000 up
/// and below 0.0001.
///
/// ```
/// use mlprof_core::report::number::five_digits;
///
/// assert_eq!(five_digits(7.0), "7.0");
/// assert_eq!(five_digits(12345.678), "1.2346e+04");
/// assert_eq!(five_digits(1.644e-6), "1.644e-06");
/// ```
pub fn five_digits(value: f64) -> String {
    python_layout(&format!("{value:.4e}"), 4)
}

/// Formats `value` as Python's `repr` does, with the shortest digits that parse to the same number.
pub(crate) fn shortest(value: f64) -> String {
    python_layout(&format!("{value:e}"), 16)
}

/// Formats `value` as `%.{significant}g` does in C and Python, with `significant` digits and
/// without trailing zeros.
pub(crate) fn general(value: f64, significant: usize) -> String {
    let scientific = format!("{value:.0$e}", significant.saturating_sub(1));
    let text = python_layout(&scientific, significant.max(1) as i32);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Rewrites Rust's `-1.2e-7` in Python's notation. `last_fixed` is the maximum number of digits
/// before the decimal point that Python writes without an exponent.
fn python_layout(scientific: &str, last_fixed: i32) -> String {
    let (sign, unsigned) = match scientific.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", scientific),
    };
    let Some((mantissa, exponent)) = unsigned.split_once('e') else {
        return format!("{sign}{}", unsigned.to_ascii_lowercase()); // infinite or NaN
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let all_digits = mantissa.replace('.', "");
    let digits = match all_digits.trim_end_matches('0') {
        "" => "0",
        digits => digits,
    };
    let before_point = exponent + 1;
    let body = if before_point <= -4 || before_point > last_fixed {
        with_exponent(digits, exponent)
    } else {
        without_exponent(digits, before_point)
    };
    format!("{sign}{body}")
}

fn with_exponent(digits: &str, exponent: i32) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}e{sign}{:02}", exponent.unsigned_abs())
}

fn without_exponent(digits: &str, before_point: i32) -> String {
    let Ok(before_point) = usize::try_from(before_point) else {
        return format!("0.{}{digits}", "0".repeat(before_point.unsigned_abs() as usize));
    };
    if before_point == 0 {
        format!("0.{digits}")
    } else if digits.len() <= before_point {
        format!("{digits}{}.0", "0".repeat(before_point - digits.len()))
    } else {
        let (whole, fraction) = digits.split_at(before_point);
        format!("{whole}.{fraction}")
    }
}

/// Formats a duration in seconds with a unit and three significant digits: `45.0 ns`, `1.23 µs`,
/// `12.3 ms`, `123 s`. Durations from 1 000 s up are in whole seconds.
///
/// ```
/// use mlprof_core::report::number::duration;
///
/// assert_eq!(duration(0.0123456), "12.3 ms");
/// assert_eq!(duration(0.0009999), "1.00 ms");
/// ```
pub fn duration(seconds: f64) -> String {
    let (number, unit) = duration_parts(seconds, 3);
    format!("{number} {unit}")
}

/// Returns the number and the unit (`ns`, `µs`, `ms`, `s`) of [`duration`], with `significant`
/// digits.
pub(crate) fn duration_parts(seconds: f64, significant: usize) -> (String, &'static str) {
    let (unit, scale, power) = match rounded_exponent(seconds, significant) {
        Some(exponent) if exponent < -6 => ("ns", 1e9, exponent + 9),
        Some(exponent) if exponent < -3 => ("µs", 1e6, exponent + 6),
        Some(exponent) if exponent < 0 => ("ms", 1e3, exponent + 3),
        Some(exponent) => ("s", 1.0, exponent),
        None => ("s", 1.0, 0),
    };
    let whole_digits = usize::try_from(power + 1).unwrap_or(0).max(1);
    let decimals = significant.saturating_sub(whole_digits);
    (format!("{:.decimals$}", seconds * scale), unit)
}

/// Formats a duration for a table. The number ends in the same column for units of one and of two
/// letters.
pub(crate) fn time_cell(seconds: f64, significant: usize) -> String {
    let (number, unit) = duration_parts(seconds, significant);
    format!("{number} {unit:<2}")
}

/// Returns the power of ten of the first digit after rounding to `significant` digits. Returns
/// `None` for 0, infinity and NaN.
fn rounded_exponent(value: f64, significant: usize) -> Option<i32> {
    let scientific = format!("{value:.0$e}", significant.saturating_sub(1));
    let exponent = scientific.split_once('e')?.1.parse().ok()?;
    (value != 0.0).then_some(exponent)
}

/// Formats a number of bytes with a binary unit: `512 B`, `1.50 KiB`, `2.00 GiB`.
///
/// ```
/// use mlprof_core::report::number::bytes;
///
/// assert_eq!(bytes(1_023), "1023 B");
/// assert_eq!(bytes(1_536), "1.50 KiB");
/// ```
pub fn bytes(count: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match UNITS.iter().find(|(power, _)| count >> power > 0) {
        Some((power, unit)) => format!("{:.2} {unit}", count as f64 / f64::from(1_u32 << power)),
        None => format!("{count} B"),
    }
}

/// Formats `part / whole` as a percentage with two decimals, such as `12.34 %`. Returns `-` if
/// `whole` is 0.
pub fn share(part: f64, whole: f64) -> String {
    let percent = 100.0 * part / whole;
    if percent.is_finite() { format!("{percent:.2} %") } else { "-".to_owned() }
}

/// Formats a share from 0 to 1 as a whole percentage, such as `81 %`.
pub fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

/// Formats a count with thousands separators: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.char_indices() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_change_their_unit_where_rounding_does() {
        let cases = [
            (0.0, "0.00 s"),
            (3e-10, "0.30 ns"),
            (45e-9, "45.0 ns"),
            (999.4e-9, "999 ns"),
            (999.6e-9, "1.00 µs"),
            (1.234e-6, "1.23 µs"),
            (12.345e-3, "12.3 ms"),
            (0.9996, "1.00 s"),
            (59.96, "60.0 s"),
            (86_400.4, "86400 s"),
            (-0.0015, "-1.50 ms"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected, "{seconds:e}");
        }
        assert_eq!(duration_parts(0.0123456, 4), ("12.35".to_owned(), "ms"));
    }

    #[test]
    fn counts_and_shares() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(share(1.0, 3.0), "33.33 %");
        assert_eq!(share(0.0, 0.0), "-");
    }

    #[test]
    fn bytes_have_units_of_1024() {
        let cases = [
            (0, "0 B"),
            (1_024, "1.00 KiB"),
            ((1 << 20) - 1, "1024.00 KiB"),
            (1 << 20, "1.00 MiB"),
            (5 << 29, "2.50 GiB"),
            (3 << 40, "3072.00 GiB"),
        ];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected);
        }
    }

    #[test]
    fn shortest_is_pythons_repr() {
        let cases =
            [(0.5, "0.5"), (1e-5, "1e-05"), (0.1 + 0.2, "0.30000000000000004"), (1e16, "1e+16")];
        for (value, expected) in cases {
            assert_eq!(shortest(value), expected);
        }
    }
}
