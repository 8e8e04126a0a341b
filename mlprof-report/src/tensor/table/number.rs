//! Numbers as torch writes them in its table.

use super::TimeUnit;

/// Nanoseconds are whole; this is how torch has them too.
pub(super) fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e3
}

pub(super) fn mean(total: f64, calls: u64) -> f64 {
    if calls == 0 { 0.0 } else { total / calls as f64 }
}

/// In this unit, or in the one that suits the number: seconds, milliseconds or microseconds.
pub(super) fn time(microseconds: f64, unit: Option<TimeUnit>) -> String {
    let suits = |unit: &TimeUnit| microseconds >= unit.microseconds();
    let suiting = || [TimeUnit::Seconds, TimeUnit::Milliseconds].into_iter().find(suits);
    let unit = unit.or_else(suiting).unwrap_or(TimeUnit::Microseconds);
    format!("{:.3}{}", microseconds / unit.microseconds(), unit.as_str())
}

pub(super) fn share(part: f64, whole: f64) -> String {
    if whole == 0.0 { "NaN".to_owned() } else { format!("{:.2}%", part * 100.0 / whole) }
}

pub(super) fn memory(bytes: i64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "GB"), (20, "MB"), (10, "KB")];
    let size = bytes.unsigned_abs();
    match UNITS.iter().find(|(power, _)| size >> power > 0) {
        Some((power, unit)) => format!("{:.2} {unit}", bytes as f64 / f64::from(1_u32 << power)),
        None => format!("{bytes} B"),
    }
}

/// The unit of the smallest of many numbers: how many of it are one, and its letter.
pub(super) fn unit(smallest: f64) -> (f64, &'static str) {
    const LETTERS: [&str; 6] = ["", "K", "M", "G", "T", "P"];
    let thousands = (smallest.log10() / 3.0).clamp(0.0, LETTERS.len() as f64 - 1.0) as usize;
    (10_f64.powf(thousands as f64 * -3.0), LETTERS[thousands])
}

pub(super) fn scaled(number: Option<f64>, unit: f64) -> String {
    number.map_or_else(|| "--".to_owned(), |number| format!("{:8.3}", number * unit))
}
