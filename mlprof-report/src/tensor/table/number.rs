//! Number formats of torch's table.

use super::TimeUnit;

/// Converts seconds into microseconds, rounded to whole nanoseconds as in torch.
pub(super) fn microseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e3
}

pub(super) fn mean(total: f64, calls: u64) -> f64 {
    if calls == 0 { 0.0 } else { total / calls as f64 }
}

/// Formats a time in the given unit. Without a unit, it uses seconds, milliseconds or microseconds,
/// depending on the value.
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

/// Returns the scale factor and the letter of the unit for the smallest of several numbers.
pub(super) fn unit(smallest: f64) -> (f64, &'static str) {
    const LETTERS: [&str; 6] = ["", "K", "M", "G", "T", "P"];
    let thousands = (smallest.log10() / 3.0).clamp(0.0, LETTERS.len() as f64 - 1.0) as usize;
    (10_f64.powf(thousands as f64 * -3.0), LETTERS[thousands])
}

pub(super) fn scaled(number: Option<f64>, unit: f64) -> String {
    number.map_or_else(|| "--".to_owned(), |number| format!("{:8.3}", number * unit))
}
