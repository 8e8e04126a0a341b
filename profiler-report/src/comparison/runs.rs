//! What a report has for a comparison, whatever profiler made it.

use super::rows::Rows;
use super::{advanced, lines, memory, simple, tensor};
use crate::Report;
use crate::training_steps::training_steps;

/// The rows of a report. `is_whole`: told apart by all that the report tells them apart by, and not by
/// their names alone.
pub(super) fn rows(report: &Report, is_whole: bool) -> Rows {
    let mut rows = Rows::default();
    match report {
        Report::Simple(report) => simple::append(&mut rows, report),
        Report::Advanced(report) => advanced::append(&mut rows, report),
        Report::Tensor(report) => tensor::append(&mut rows, report, is_whole),
        Report::Memory(memory) => memory::append(&mut rows, memory, training_steps(report)),
        Report::Lines(report) => lines::append(&mut rows, report),
        Report::Samples(_) => {}
    }
    rows.drift_all();
    rows
}
