//! Tables of operating system counters: CPU time, and bytes read and written.

use std::fmt::Write;

use crate::simple::{ActionStatistics, CpuStatistics, IoStatistics};
use crate::table::{bytes, count, digits, number, percent, table, words};
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
    let table = table!("CPU time", rows, |(row, cpu)| {
        words("Action", "") => row.label(),
        digits(4, "Total", "") => row.total_seconds,
        digits(4, "CPU", "") => cpu.thread_seconds,
        digits(4, "Waiting", "") => row.waiting_seconds().unwrap_or(0.0),
        percent("CPU %", "") => (row.total_seconds > 0.0)
            .then(|| cpu.thread_seconds.min(row.total_seconds) / row.total_seconds),
        digits(4, "Process", "") => cpu.process_seconds,
        number("Cores", "") => row.busy_cores(),
        count("Yielded", "") => cpu.voluntary_switches,
        count("Preempted", "") => cpu.involuntary_switches,
    });
    text.push_str(&table.text(usize::MAX));
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
    let mut rows: Vec<(&ActionStatistics, IoStatistics)> =
        rows.iter().filter_map(|row| Some((*row, row.io?))).collect();
    if rows.is_empty() {
        return false;
    }
    rows.retain(|(_, io)| !io.is_zero());
    if rows.is_empty() {
        text.push_str("\nNo action read or wrote anything.\n");
        return false;
    }
    if !is_sorted {
        rows.order_by_key(|(_, io)| std::cmp::Reverse(io.read_bytes + io.written_bytes));
    }
    let order = if is_sorted { "in the order above" } else { "most bytes first" };
    let _ = writeln!(text, "\nBytes read and written, {all}{order}");
    let table = table!("Bytes read and written", rows, |(row, io)| {
        words("Action", "") => row.label(),
        bytes("Read", "") => io.read_bytes,
        bytes("Written", "") => io.written_bytes,
        bytes("From storage", "") => io.storage_read_bytes,
        bytes("To storage", "") => io.storage_written_bytes,
    });
    text.push_str(&table.text(usize::MAX));
    true
}
