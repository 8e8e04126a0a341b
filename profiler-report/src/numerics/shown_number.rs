//! Numbers of tensors, in words.

/// Four digits, or nothing where there is no number.
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
