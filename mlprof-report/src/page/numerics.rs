//! HTML of a Numerics report.

use std::fmt::Write;

use super::Part;
use super::text;
use crate::NumericsReport;
use crate::number::grouped;
use crate::numerics::{run_again, tensors_table, whereabouts};

/// Writes the tensors that are not finite, the troubles, and a row for each place.
pub(super) fn write(html: &mut String, report: &NumericsReport, part: &Part) {
    part.heading(html, "numerics", "Numbers");
    let (recorded, steps) = (grouped(report.recorded_steps), grouped(report.steps));
    let again = if report.rerun.is_some() { ", and one rerun batch" } else { "" };
    let _ = writeln!(html, "<p>{recorded} of {steps} steps were recorded{again}.</p>");
    let _ = match &report.first_not_finite {
        Some(first) => {
            let words = format!("{}. {}", first.what_is_not_finite(), whereabouts(first));
            writeln!(html, "<p class=note>{}</p>", text::advice(&words))
        }
        None => writeln!(html, "<p>No tensor contained NaN or infinity.</p>"),
    };
    if let Some(first) = &report.first_op_not_finite {
        let _ = writeln!(html, "<p class=note>{}</p>", text::advice(&first.what_is_not_finite()));
    }
    if let Some(rerun) = &report.rerun {
        let words = format!("Rerun: {}", run_again(rerun));
        let _ = writeln!(html, "<p class=note>{}</p>", text::advice(&words));
    }
    if !report.troubles.is_empty() {
        html.push_str("<ul>\n");
        for trouble in &report.troubles {
            let _ = writeln!(html, "<li class=note>{}</li>", text::advice(&trouble.sentence));
        }
        html.push_str("</ul>\n");
    }
    tensors_table(&report.tensors).write(html, part.limits);
}
