//! Comparison rows of a Memory report.

use super::Subject;
use super::rows::{Rows, share};
use super::simple::append_run;
use super::spread::Sample;
use crate::MemoryReport;

/// Name of the process row among the rows of actions.
pub(super) const PROCESS: &str = "(the process)";

/// Appends the rows of the report. `steps` is the number of steps that the report covers, if known.
pub(super) fn append(rows: &mut Rows, report: &MemoryReport, steps: Option<u64>) {
    append_run(rows, &report.header);
    let process = &report.process;
    let (bytes, blocks) = (process.total.allocated_bytes, process.total.allocated_blocks);
    // Counts are divided by the number of steps where it is known, because runs may have different
    // numbers of steps.
    let of_step = |count: u64| match steps {
        Some(steps) => Sample::counted(count as f64 / steps as f64, steps, 1.0),
        None => Sample::alone(count as f64, 1, 1.0),
    };
    rows.add(Subject::Memory, PROCESS, of_step(bytes));
    rows.add(Subject::Blocks, PROCESS, of_step(blocks));
    let threads: u64 = report.threads.iter().map(|thread| thread.threads).sum();
    let uncertainty = process.uncertainty_bytes_per_thread.saturating_mul(threads) as f64;
    let peak = process.peak_bytes.max(0) as f64;
    let sample = Sample::within(peak, uncertainty + 0.005 * peak, 1, 1.0);
    rows.add(Subject::Peak, PROCESS, sample);
    for row in &report.actions {
        let of_call = |count: u64| count as f64 / row.calls.max(1) as f64;
        let own = &row.own;
        let part = share(own.allocated_bytes as f64, bytes as f64);
        let sample = Sample::counted(of_call(own.allocated_bytes), row.calls, part);
        rows.add(Subject::Memory, row.label(), sample);
        let part = share(own.allocated_blocks as f64, blocks as f64);
        let sample = Sample::counted(of_call(own.allocated_blocks), row.calls, part);
        rows.add(Subject::Blocks, row.label(), sample);
        let part = share(row.peak_bytes as f64, peak);
        let sample = Sample::counted(row.peak_bytes as f64, row.calls, part);
        rows.add(Subject::Peak, row.label(), sample);
    }
}
