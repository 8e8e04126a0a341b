//! Text form of tensor values.

use super::TensorStatistics;

/// Formats a number with four significant digits, or returns `-` for `None`.
pub(crate) fn shown_number(number: Option<f64>) -> String {
    number.map_or_else(
        || "-".to_owned(),
        |number| match number.abs() {
            0.0 => "0".to_owned(),
            size if (1e-3..1e5).contains(&size) => {
                let digits = 3 - size.log10().floor() as i32;
                format!("{number:.*}", digits.clamp(0, 6) as usize)
            }
            _ => format!("{number:.3e}"),
        },
    )
}

/// Returns the L2 norm of a tensor's finite numbers. Returns `NaN` or `inf` if the tensor has no
/// finite number.
pub(crate) fn shown_norm(statistics: &TensorStatistics) -> String {
    match statistics.finite() {
        0 if statistics.nans > 0 => "NaN".to_owned(),
        0 if statistics.infinities > 0 => "inf".to_owned(),
        _ => shown_number(Some(statistics.l2_norm)),
    }
}
