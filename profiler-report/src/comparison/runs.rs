//! What a report has for a comparison, whatever profiler made it.

use super::rows::Rows;
use super::{advanced, lines, memory, simple, tensor};
use crate::Report;
use profiler_events::names::RUN_TRAINING_BATCH;

/// The rows of a report. `is_whole`: told apart by all that the report tells them apart by, and not by
/// their names alone.
pub(super) fn rows(report: &Report, is_whole: bool) -> Rows {
    let mut rows = Rows::default();
    match report {
        Report::Simple(report) => simple::append(&mut rows, report),
        Report::Advanced(report) => advanced::append(&mut rows, report),
        Report::Tensor(report) => tensor::append(&mut rows, report, is_whole),
        Report::Memory(memory) => memory::append(&mut rows, memory, steps(report)),
        Report::Lines(report) => lines::append(&mut rows, report),
        Report::Samples(_) => {}
    }
    rows.drift_all();
    rows
}

/// How many training steps a report covers, where it knows of any.
pub(super) fn steps(report: &Report) -> Option<u64> {
    let steps = match report {
        Report::Simple(report) => {
            let mut rows = report.actions.iter();
            rows.find(|row| row.action == RUN_TRAINING_BATCH).map(|row| row.calls)
        }
        Report::Advanced(report) => {
            let mut actions = report.actions.iter();
            actions.find(|profile| profile.action == RUN_TRAINING_BATCH).map(|it| it.calls)
        }
        Report::Memory(report) => {
            let mut rows = report.actions.iter();
            rows.find(|row| row.action == RUN_TRAINING_BATCH).map(|row| row.calls)
        }
        Report::Tensor(report) => Some(report.recorded_steps),
        Report::Lines(_) | Report::Samples(_) => None,
    };
    steps.filter(|steps| *steps > 0)
}
