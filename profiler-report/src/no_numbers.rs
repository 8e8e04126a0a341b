//! What was asked for and is not there.

use crate::Report;
use profiler_events::ActionKind;

/// Whether a report has any number of what `mlprof run` measures: rows of a training loop of the
/// program's own are not what was asked for.
pub fn has_numbers(report: &Report) -> bool {
    match report {
        Report::Simple(report) => !report.actions.is_empty(),
        Report::Advanced(report) => {
            let mut functions = report.actions.iter().flat_map(|action| &action.functions);
            functions.any(|function| function.function.line > 0)
        }
        Report::Tensor(report) => {
            report.key_averages.rows.iter().any(|row| row.kind == ActionKind::Op)
        }
        Report::Memory(report) => !report.actions.is_empty(),
        Report::Lines(report) => report.functions.iter().any(|function| function.calls > 0),
        Report::Samples(report) => report.samples.samples > 0,
        Report::Numerics(report) => !report.tensors.is_empty(),
    }
}

/// Why there are none, as far as the process itself can know; `None` where the report's own notes say.
pub fn reason_for_nothing(report: &Report) -> Option<String> {
    let says = |part: &str| report.header().notes.iter().any(|note| note.contains(part));
    Some(match report {
        Report::Tensor(_) if says("there are no ops") || says("gives no hook") => return None,
        Report::Numerics(_) => return None,
        Report::Lines(_) if says("there are no lines") => return None,
        Report::Samples(report) if !report.samples.notes.is_empty() => return None,
        Report::Tensor(_) => {
            "no op was recorded: no op that has a hook was called, or only outside \
                              of the recorded steps"
                .to_owned()
        }
        Report::Lines(_) => {
            "no line was counted: no function whose lines have hooks was called".to_owned()
        }
        Report::Samples(report) => format!(
            "nothing was sampled in {:.0} ms: the process was too short for {:.0} samples a second",
            report.samples.seconds * 1e3,
            report.samples.asked_hz,
        ),
        _ => "no function was counted: no function that has a hook was called".to_owned(),
    })
}
