//! Tables of operating system counters: CPU time, and bytes read and written.

use std::fmt::Write;

use crate::label;
use crate::number::{bytes, grouped, share, time_cell};
use crate::simple::{ActionStatistics, CpuStatistics, IoStatistics};
use crate::table::Grid;
use mlprof_events::OrderExt;

/// Legend below the table of CPU time. Writing into a string cannot fail, so the results below are
/// ignored.
pub(crate) const CPU_LEGEND: &str = "Including the actions inside. CPU: the thread that ran the \
                                     action; waiting: the remaining time, for devices, \
                                     files,\nlocks, other threads or a core. Process: CPU time of \
                                     all threads meanwhile, and the number of busy cores; actions \
                                     that\nrun in parallel include each other's time. Yielded: \
                                     number of times that the thread gave up its core to \
                                     wait;\npreempted: number of times that the system took it.\n";

/// Legend below the table of bytes.
pub(crate) const IO_LEGEND: &str = "Including the actions inside. Read: by calls; only data \
                                    outside the page cache came from storage.\n";

/// Appends the table of CPU time, if it was measured. With `is_sorted`, the rows keep their order,
/// otherwise they are ordered by total time. Returns `true` if there is a table.
pub(crate) fn paint_cpu(
    text: &mut String,
    rows: &[&ActionStatistics],
    all: &str,
    is_sorted: bool,
) -> bool {
    let mut rows: Vec<(&ActionStatistics, CpuStatistics)> =
        rows.iter().filter_map(|row| Some((*row, row.cpu?))).collect();
    if rows.is_empty() {
        return false;
    }
    if !is_sorted {
        rows.order_by(|(one, _), (other, _)| other.total_seconds.total_cmp(&one.total_seconds));
    }
    let order = if is_sorted { "in the order above" } else { "longest first" };
    let _ = writeln!(text, "\nCPU time, {all}{order}");
    let mut table = Grid::new([
        "Total",
        "CPU",
        "Waiting",
        "CPU %",
        "Process",
        "Cores",
        "Yielded",
        "Preempted",
        "Action",
    ]);
    for (row, cpu) in rows {
        let working = share(cpu.thread_seconds.min(row.total_seconds), row.total_seconds);
        table.row([
            time_cell(row.total_seconds, 4),
            time_cell(cpu.thread_seconds, 4),
            time_cell(row.waiting_seconds().unwrap_or(0.0), 4),
            working.trim_end_matches(" %").to_owned(),
            time_cell(cpu.process_seconds, 4),
            row.busy_cores().map_or_else(|| "-".to_owned(), |cores| format!("{cores:.2}")),
            grouped(cpu.voluntary_switches),
            grouped(cpu.involuntary_switches),
            label::shown(&row.label()),
        ]);
    }
    text.push_str(&table.paint());
    true
}

/// Appends the table of bytes, if they were measured. Only actions that read or wrote have a row.
/// With `is_sorted`, the rows keep their order, otherwise they are ordered by bytes. Returns `true`
/// if there is a table.
pub(crate) fn paint_io(
    text: &mut String,
    rows: &[&ActionStatistics],
    all: &str,
    is_sorted: bool,
) -> bool {
    let mut rows: Vec<(IoStatistics, String)> =
        rows.iter().filter_map(|row| Some((row.io?, label::shown(&row.label())))).collect();
    if rows.is_empty() {
        return false;
    }
    rows.retain(|(io, _)| !io.is_zero());
    if rows.is_empty() {
        text.push_str("\nNo action read or wrote anything.\n");
        return false;
    }
    if !is_sorted {
        rows.order_by_key(|(io, _)| std::cmp::Reverse(io.read_bytes + io.written_bytes));
    }
    let order = if is_sorted { "in the order above" } else { "most bytes first" };
    let _ = writeln!(text, "\nBytes read and written, {all}{order}");
    let mut table = Grid::new(["Read", "Written", "From storage", "To storage", "Action"]);
    for (io, label) in rows {
        table.row([
            bytes(io.read_bytes),
            bytes(io.written_bytes),
            bytes(io.storage_read_bytes),
            bytes(io.storage_written_bytes),
            label,
        ]);
    }
    text.push_str(&table.paint());
    true
}
