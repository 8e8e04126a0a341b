//! The report as text.

use std::fmt::Write;

use super::{NumericsReport, RecordedTensor, Rerun, TensorRow, shown_norm, shown_number};
use crate::label;
use crate::lightning::{append_remarks, title};
use crate::number::{duration, grouped};
use crate::table::Table;

/// Rows of the table that are shown; JSON has them all.
const ROWS_SHOWN: usize = 60;

/// The report: the first number that is not finite, a row for each tensor, and what else is wrong.
pub fn paint(report: &NumericsReport) -> String {
    let mut text = format!("{}\n\n", title(&report.header));
    let _ = writeln!(
        text,
        "Recorded    {} of {} steps{}, in {}",
        grouped(report.recorded_steps),
        grouped(report.steps),
        if report.rerun.is_some() { " and one batch run again" } else { "" },
        duration(report.header.wall_seconds),
    );
    let _ = writeln!(text, "Not finite  {}", not_finite(report));
    if let Some(first) = &report.first_not_finite {
        let _ = writeln!(text, "            {}", whereabouts(first));
    }
    if let Some(first) = &report.first_op_not_finite {
        let _ = writeln!(text, "First op    {}", label::one_line(&first.what_is_not_finite()));
    }
    if let Some(rerun) = &report.rerun {
        let _ = writeln!(text, "Run again   {}", run_again(rerun));
    }
    if !report.tensors.is_empty() {
        text.push('\n');
        paint_tensors(&mut text, &report.tensors);
    }
    if !report.troubles.is_empty() {
        text.push_str("\nTroubles\n");
        for trouble in &report.troubles {
            let _ = writeln!(text, "  {}", label::one_line(&trouble.sentence));
        }
    }
    for file in &report.files {
        let what = if file.ends_with(".safetensors") { "Saved tensors" } else { "Record" };
        let _ = writeln!(text, "\n{what}: {file}");
    }
    if !report.header.notes.is_empty() {
        text.push('\n');
        append_remarks(&mut text, &[], &report.header.notes);
    }
    text
}

fn not_finite(report: &NumericsReport) -> String {
    match &report.first_not_finite {
        Some(first) => {
            let more = match report.not_finite {
                0 | 1 => String::new(),
                more => format!(" It was the first of {} tensors.", grouped(more)),
            };
            format!("{}.{more}", label::one_line(&first.what_is_not_finite()))
        }
        None if report.is_watched => "nothing, in any step".to_owned(),
        None => "nothing, in the recorded steps".to_owned(),
    }
}

/// What else is known of the place, in a sentence.
pub(crate) fn whereabouts(first: &RecordedTensor) -> String {
    let call = match first.call {
        0 => String::new(),
        call => format!(", number {} of this name in the step", call + 1),
    };
    let (element_type, thread) = (label::shown(&first.element_type), label::shown(&first.thread));
    let source = first.source.as_ref();
    let source = source.map_or_else(String::new, |source| {
        format!(" The module was made at {}.", label::shown(source))
    });
    format!("It is {element_type} {}, on the thread {thread}{call}.{source}", shape(&first.shape))
}

/// What a second run of the batch has shown.
pub(crate) fn run_again(rerun: &Rerun) -> String {
    let first = match &rerun.first_not_finite {
        Some(first) => label::one_line(&first.what_is_not_finite()),
        None => "all of it was finite: what is random, such as dropout, was different".to_owned(),
    };
    let failed = rerun.failure.as_ref();
    let failed =
        failed.map_or_else(String::new, |why| format!(". It failed: {}", label::one_line(why)));
    format!("{first}, of {} tensors{failed}.", grouped(rerun.tensors))
}

fn paint_tensors(text: &mut String, tensors: &[TensorRow]) {
    let mut table = Table::new([
        "Tensors read",
        "Min",
        "Max",
        "Mean",
        "Std",
        "L2 norm",
        "Zeros",
        "NaN, inf",
        "Type",
        "Role",
        "Shape",
        "Tensor",
    ]);
    for row in tensors.iter().take(ROWS_SHOWN) {
        let all = &row.all;
        table.row([
            grouped(row.tensors),
            shown_number(all.minimum),
            shown_number(all.maximum),
            shown_number(all.mean),
            shown_number(all.standard_deviation),
            shown_norm(&row.last),
            share(all.zeros, all.count),
            grouped(all.nans + all.infinities),
            row.element_type.clone(),
            row.role.to_string(),
            shape(&row.shape),
            label::shown(&row.name),
        ]);
    }
    text.push_str(&table.paint());
    text.push_str(
        "Numbers are those of all tensors read of a row: of every call in a recorded step or a batch run again. The L2 norm and the \
         shape are those of the last one.\n",
    );
    if tensors.len() > ROWS_SHOWN {
        let more = grouped((tensors.len() - ROWS_SHOWN) as u64);
        let _ = writeln!(text, "{more} more are in the JSON.");
    }
}

fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "0".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

fn shape(shape: &[u64]) -> String {
    let sides: Vec<_> = shape.iter().map(u64::to_string).collect();
    format!("[{}]", sides.join(", "))
}
