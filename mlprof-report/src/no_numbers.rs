//! Detection of reports without the requested data.

use crate::Report;
use crate::tensor::device_seconds;
use mlprof_events::ActionKind;

/// Returns `true` if a report has any data that `mlprof run` records. Rows from the program's own
/// training loop do not count.
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

/// Returns the recorded seconds outside of all stages if they are too few for a separate report.
/// The limits are one second and 5 % of the wall time.
pub fn little_beside_stages(report: &Report) -> Option<f64> {
    let Report::Tensor(tensor) = report else { return None };
    let rows = &tensor.key_averages.rows;
    let on_host: f64 = rows.iter().map(|row| row.self_cpu_seconds).sum();
    let seconds = on_host + device_seconds(rows);
    let is_little = seconds < 1.0 && seconds < 0.05 * tensor.header.wall_seconds;
    (tensor.header.stage.is_none() && tensor.steps == 0 && is_little).then_some(seconds)
}

/// Returns the reason for the missing data, as far as the process knows it. Returns `None` if the
/// report's own notes already explain it.
pub fn reason_for_nothing(report: &Report) -> Option<String> {
    let says = |part: &str| report.header().notes.iter().any(|note| note.contains(part));
    Some(match report {
        Report::Tensor(_)
            if says("there are no ops")
                || says("no ops of")
                || says("no hook for its tensor ops") =>
        {
            return None;
        }
        Report::Numerics(_) => return None,
        Report::Lines(_) if says("there are no lines") => return None,
        Report::Samples(report) if !report.samples.notes.is_empty() => return None,
        Report::Tensor(_) => {
            "no op was recorded: no op with a hook was called, or only outside of the recorded \
             steps"
                .to_owned()
        }
        Report::Lines(_) => {
            "no line was counted: no function with hooks on its lines was called".to_owned()
        }
        Report::Samples(report) => format!(
            "nothing was sampled in {:.0} ms: the process was too short for {:.0} samples per \
             second",
            report.samples.seconds * 1e3,
            report.samples.asked_hz,
        ),
        _ => "no function was counted: no function with a hook was called".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples::{action, recorded};

    #[test]
    fn work_outside_of_stages_is_little_if_it_takes_no_time() {
        let outside = |seconds: f64| {
            let mut report = recorded(vec![action("candle::conv2d", 21, seconds)]);
            (report.header.stage, report.steps) = (None, 0);
            Report::Tensor(report)
        };
        // The report covers 20 seconds.
        assert_eq!(little_beside_stages(&outside(0.0148)), Some(0.0148));
        assert_eq!(little_beside_stages(&outside(1.5)), None, "a prediction by hand");
        let mut short = outside(0.5);
        short.header_mut().wall_seconds = 2.0;
        assert_eq!(little_beside_stages(&short), None, "a quarter of the run");
        let mut fit = outside(0.0148);
        fit.header_mut().stage = Some(mlprof_events::Stage::Fit);
        assert_eq!(little_beside_stages(&fit), None);
    }
}
