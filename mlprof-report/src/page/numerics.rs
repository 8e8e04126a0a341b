//! What the numerics profiler found.

use std::fmt::Write;

use super::Part;
use super::table::{Cell, Column, Merge, Table, Unit};
use super::text;
use crate::NumericsReport;
use crate::label;
use crate::number::grouped;
use crate::numerics::{TensorRow, run_again, shown_norm, shown_number, whereabouts};

/// What is not finite, what else is wrong, and a row for each place.
pub(super) fn write(html: &mut String, report: &NumericsReport, part: &Part) {
    part.heading(html, "numerics", "Numbers");
    let (recorded, steps) = (grouped(report.recorded_steps), grouped(report.steps));
    let again = if report.rerun.is_some() { ", and one batch that was run again" } else { "" };
    let _ = writeln!(html, "<p>{recorded} of {steps} steps were recorded{again}.</p>");
    let _ = match &report.first_not_finite {
        Some(first) => {
            let words = format!("{}. {}", first.what_is_not_finite(), whereabouts(first));
            writeln!(html, "<p class=note>{}</p>", text::advice(&words))
        }
        None => writeln!(html, "<p>Nothing was NaN or infinite.</p>"),
    };
    if let Some(first) = &report.first_op_not_finite {
        let _ = writeln!(html, "<p class=note>{}</p>", text::advice(&first.what_is_not_finite()));
    }
    if let Some(rerun) = &report.rerun {
        let words = format!("Run again: {}", run_again(rerun));
        let _ = writeln!(html, "<p class=note>{}</p>", text::advice(&words));
    }
    if !report.troubles.is_empty() {
        html.push_str("<ul>\n");
        for trouble in &report.troubles {
            let _ = writeln!(html, "<li class=note>{}</li>", text::advice(&trouble.sentence));
        }
        html.push_str("</ul>\n");
    }
    if !report.tensors.is_empty() {
        write_tensors(html, &report.tensors, part);
    }
}

fn write_tensors(html: &mut String, tensors: &[TensorRow], part: &Part) {
    let mut table = Table::new([
        Column::new("Tensor", Unit::Text, "The module or op that returned it, or the parameter")
            .merge(Merge::Key),
        Column::new("Role", Unit::Text, "What it is for"),
        Column::new("Type", Unit::Text, "Of its elements"),
        Column::new(
            "Tensors read",
            Unit::Count,
            "One for each call in a recorded step, or in a batch run again",
        ),
        Column::new("Smallest", Unit::Text, "Of all of them"),
        Column::new("Largest", Unit::Text, "Of all of them"),
        Column::new("Mean", Unit::Text, "Of all of them"),
        Column::new("Deviation", Unit::Text, "The standard deviation, of all of them"),
        Column::new("L2 norm", Unit::Text, "Of the last one"),
        Column::new("Zeros", Unit::Share, "The part of all numbers that is 0"),
        Column::new("Not finite", Unit::Count, "NaN and infinite numbers"),
    ]);
    for row in tensors.iter().take(part.limits.rows) {
        let all = &row.all;
        let number = |number: Option<f64>| Cell::Text(shown_number(number));
        table.row([
            Cell::Text(text::name(&row.name, part.limits.name)),
            Cell::Text(row.role.to_string()),
            Cell::Text(text::name(&label::shown(&row.element_type), part.limits.name)),
            row.tensors.into(),
            number(all.minimum),
            number(all.maximum),
            number(all.mean),
            number(all.standard_deviation),
            Cell::Text(shown_norm(&row.last)),
            (all.zeros as f64 / all.count.max(1) as f64).into(),
            (all.nans + all.infinities).into(),
        ]);
    }
    table.write(html, "Tensors of the recorded steps, in the order in which they were seen");
}
