//! Comparison rows of a line report. The rows are functions, because line numbers differ between
//! two versions of a program.

use super::Subject;
use super::rows::{Rows, share};
use super::simple::append_run;
use super::spread::Sample;
use crate::LinesReport;

pub(super) fn append(rows: &mut Rows, report: &LinesReport) {
    append_run(rows, &report.header);
    for function in report.functions.iter().filter(|function| function.calls > 0) {
        let mean = function.total_seconds / function.calls as f64;
        let share = share(function.total_seconds, report.header.wall_seconds);
        rows.add(Subject::Lines, &function.name, Sample::alone(mean, function.calls, share));
    }
}
