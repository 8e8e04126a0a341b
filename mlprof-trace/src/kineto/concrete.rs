//! Numbers that were passed to ops, in torch's format.

use std::io::Write;

use mlprof_events::{InputDetail, Number};

/// Appends the value of an input as a string, which is `""` for anything but a number.
pub(super) fn push_concrete(text: &mut Vec<u8>, detail: &InputDetail) {
    text.push(b'"');
    match detail {
        InputDetail::Number(number) => push_number(text, *number),
        InputDetail::Numbers(numbers) => {
            text.push(b'[');
            for (place, number) in numbers.iter().enumerate() {
                if place > 0 {
                    text.extend_from_slice(b", ");
                }
                push_number(text, *number);
            }
            text.push(b']');
        }
        _ => {}
    }
    text.push(b'"');
}

fn push_number(text: &mut Vec<u8>, number: Number) {
    // Writing to a vector cannot fail.
    let _ = match number {
        Number::Integer(value) => write!(text, "{value}"),
        Number::Switch(is_on) => write!(text, "{}", if is_on { "True" } else { "False" }),
        Number::Float(value) => return push_float(text, value),
        Number::Complex(real, imaginary) => {
            push_float(text, real);
            text.push(if imaginary >= 0.0 { b'+' } else { b'-' });
            push_float(text, imaginary.abs());
            write!(text, "j")
        }
    };
}

/// Integers of at least this magnitude do not fit in 64 bits.
const WHOLE_BELOW: f64 = 9_223_372_036_854_775_808.0;

/// Appends a whole number with a trailing point, or any other number with 17 significant digits,
/// which are enough to distinguish it.
fn push_float(text: &mut Vec<u8>, value: f64) {
    let is_whole = value.abs() < WHOLE_BELOW && value.trunc() == value;
    let is_subnormal = value != 0.0 && value.abs() < f64::MIN_POSITIVE;
    // Writing to a vector cannot fail.
    let _ = if is_whole && !is_subnormal {
        write!(text, "{}.", value as i64)
    } else if value.is_nan() {
        write!(text, "nan")
    } else if value.is_infinite() {
        write!(text, "{}", if value > 0.0 { "inf" } else { "-inf" })
    } else {
        write!(text, "{}", general(value))
    };
}

const DIGITS: i32 = 17;

/// Formats a number like C's `%.17g`.
fn general(value: f64) -> String {
    let scientific = format!("{value:.16e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
        return without_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs())
}

fn without_zeros(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_c_plus_plus_writes_them() {
        let float = |value: f64| {
            let mut text = Vec::new();
            push_float(&mut text, value);
            String::from_utf8(text).expect("letters")
        };
        let expected = [
            (1.0, "1."),
            (-0.0, "0."),
            (1e18, "1000000000000000000."),
            (1e19, "1e+19"),
            (0.001, "0.001"),
            (0.1, "0.10000000000000001"),
            (-1.0e-5, "-1.0000000000000001e-05"),
            (1e-8, "1e-08"),
            (123_456.789, "123456.789"),
            (0.000_123, "0.00012300000000000001"),
            (1.5e300, "1.5000000000000001e+300"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
            (5e-324, "4.9406564584124654e-324"),
        ];
        for (value, text) in expected {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn lists_and_what_is_no_number() {
        let concrete = |detail: InputDetail| {
            let mut text = Vec::new();
            push_concrete(&mut text, &detail);
            String::from_utf8(text).expect("letters")
        };
        let numbers = vec![Number::Integer(-3), Number::Switch(false), Number::Complex(0.5, -2.0)];
        assert_eq!(concrete(InputDetail::Numbers(numbers)), "\"[-3, False, 0.5-2.j]\"");
        assert_eq!(concrete(InputDetail::Number(Number::Switch(true))), "\"True\"");
        assert_eq!(concrete(InputDetail::Numbers(vec![])), "\"[]\"");
        assert_eq!(concrete(InputDetail::Strides(vec![1])), "\"\"");
    }
}
