//! Numerics report as text.

use std::fmt::Write;

use super::{NumericsReport, RecordedTensor, Rerun, TensorRow, shown_norm, shown_number};
use crate::label;
use crate::number::{duration, grouped};
use crate::simple::lightning::{append_remarks, title};
use crate::table::{Table, count, share, table, words};

/// Maximum number of table rows shown. JSON contains all rows.
const ROWS_SHOWN: usize = 60;

/// Renders the report: the first number that is not finite, a row for each tensor, and the other
/// troubles.
pub fn paint(report: &NumericsReport) -> String {
    let mut text = format!("{}\n\n", title(&report.header));
    let _ = writeln!(
        text,
        "Recorded    {} of {} steps{}, in {}",
        grouped(report.recorded_steps),
        grouped(report.steps),
        if report.rerun.is_some() { " and one rerun batch" } else { "" },
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
        let _ = writeln!(text, "Rerun       {}", run_again(rerun));
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
                more => format!(" It was the first of {} such tensors.", grouped(more)),
            };
            format!("{}.{more}", label::one_line(&first.what_is_not_finite()))
        }
        None if report.is_watched => "none in any step".to_owned(),
        None => "none in the recorded steps".to_owned(),
    }
}

/// Returns further details about the tensor's place as a sentence.
pub(crate) fn whereabouts(first: &RecordedTensor) -> String {
    let call = match first.call {
        0 => String::new(),
        call => format!(", call {} of this name in the step", call + 1),
    };
    let (element_type, thread) = (label::shown(&first.element_type), label::shown(&first.thread));
    let source = first.source.as_ref();
    let source = source.map_or_else(String::new, |source| {
        format!(" The module was created at {}.", label::shown(source))
    });
    format!("It is {element_type} {}, on thread {thread}{call}.{source}", shape(&first.shape))
}

/// Returns the result of a second run of the batch as a sentence.
pub(crate) fn run_again(rerun: &Rerun) -> String {
    let first = match &rerun.first_not_finite {
        Some(first) => label::one_line(&first.what_is_not_finite()),
        None => "all numbers were finite: random operations such as dropout differed".to_owned(),
    };
    let failed = rerun.failure.as_ref();
    let failed = failed
        .map_or_else(String::new, |why| format!(". The rerun failed: {}", label::one_line(why)));
    format!("{first}, among {} tensors{failed}.", grouped(rerun.tensors))
}

/// Returns a table of tensors in the order in which they were seen.
pub(crate) fn tensors_table(tensors: &[TensorRow]) -> Table {
    let caption = "Tensors of the recorded steps, in order of first occurrence";
    let table = table!(caption, tensors, |row| {
        let all = &row.all;
        words("Tensor", "Module or op that returned the tensor, or name of the parameter").key() =>
            row.name.as_str(),
        count("Tensors read", "Number of tensors: one for each call in a recorded step or a rerun \
                               batch") =>
            row.tensors,
        words("Min", "Smallest number") => shown_number(all.minimum),
        words("Max", "Largest number") => shown_number(all.maximum),
        words("Mean", "Mean of all numbers") => shown_number(all.mean),
        words("Std", "Standard deviation of all numbers") => shown_number(all.standard_deviation),
        words("L2 norm", "L2 norm of the last tensor") => shown_norm(&row.last),
        words("Zeros", "").in_text() => zeros(all.zeros, all.count),
        share("Zeros", "Share of zeros").on_page() =>
            all.zeros as f64 / all.count.max(1) as f64,
        count("NaN, inf", "Number of NaN and infinite values") => all.nans + all.infinities,
        words("Type", "Element type") => row.element_type.as_str(),
        words("Role", "Role of the tensor") => row.role.to_string(),
        words("Shape", "").in_text() => shape(&row.shape),
    });
    table.name_last()
}

fn paint_tensors(text: &mut String, tensors: &[TensorRow]) {
    let shown = &tensors[..tensors.len().min(ROWS_SHOWN)];
    text.push_str(&tensors_table(shown).text(ROWS_SHOWN));
    text.push_str(
        "Each row covers all of its tensors: every call in a recorded step or a rerun batch. The \
         L2 norm and the shape are those of the last tensor.\n",
    );
    if let Some(more @ 1..) = tensors.len().checked_sub(ROWS_SHOWN) {
        let _ = writeln!(text, "{} more are only in the JSON report.", grouped(more as u64));
    }
}

fn zeros(part: u64, whole: u64) -> String {
    match (part, whole) {
        (0, _) | (_, 0) => "0".to_owned(),
        _ => format!("{:.1} %", part as f64 / whole as f64 * 100.0),
    }
}

fn shape(shape: &[u64]) -> String {
    let sides: Vec<_> = shape.iter().map(u64::to_string).collect();
    format!("[{}]", sides.join(", "))
}
