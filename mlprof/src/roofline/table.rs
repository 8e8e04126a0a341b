//! Roofline as text.

use std::fmt::Write;

use super::{Roofline, Row};

/// Returns the tables, each with at most `limit` rows.
pub(crate) fn text(roofline: &Roofline, limit: usize) -> String {
    let mut text = format!("Roofs: {}\n", roofline.roofs);
    // Writing into a string cannot fail.
    if let Some(steps) = &roofline.steps {
        let share = |seconds: f64| 100.0 * seconds / steps.seconds;
        let _ = writeln!(
            text,
            "Recorded steps: {}, {:.3} s. Ops with known work take {:.0} % of this time; at the \
             roofs they would take {:.1} %. MFU: {:.1} %.",
            steps.steps,
            steps.seconds,
            share(steps.known_seconds),
            share(steps.least_seconds),
            100.0 * steps.mfu,
        );
    }
    add_rows(&mut text, "Op", &roofline.ops, limit);
    if !roofline.modules.is_empty() {
        add_rows(&mut text, "Module", &roofline.modules, limit);
    }
    for note in &roofline.notes {
        let _ = writeln!(text, "Note: {note}.");
    }
    text
}

fn add_rows(text: &mut String, title: &str, rows: &[Row], limit: usize) {
    let _ = writeln!(
        text,
        "\n{:>8}  {:>9}  {:>5}  {:>10}  {:>9}  {:>10}  {:>7}  {:<8}  {title}",
        "Calls", "Time", "Type", "GFLOP/s", "GB/s", "FLOP/byte", "% roof", "Bound by"
    );
    for row in rows.iter().take(limit) {
        let rate = |amount: u64| match amount {
            0 => "-".to_owned(),
            amount => format!("{:.1}", amount as f64 / row.seconds / 1e9),
        };
        let intensity = match (row.flops, row.bytes) {
            (0, _) | (_, 0) => "-".to_owned(),
            (flops, bytes) => format!("{:.1}", flops as f64 / bytes as f64),
        };
        let _ = writeln!(
            text,
            "{:>8}  {:>9}  {:>5}  {:>10}  {:>9}  {intensity:>10}  {:>7.1}  {:<8}  {}",
            row.calls,
            time(row.seconds),
            row.dtype.unwrap_or("-"),
            rate(row.flops),
            rate(row.bytes),
            100.0 * row.roof_share,
            row.bound_by.as_str(),
            row.name,
        );
    }
    if rows.len() > limit {
        let _ = writeln!(text, "{} more rows are only in the JSON.", rows.len() - limit);
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        seconds if seconds >= 1.0 => format!("{seconds:.2} s"),
        seconds if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        seconds => format!("{:.2} µs", seconds * 1e6),
    }
}
