//! Detailed layout of the Simple report. It contains self time, the first call, the distribution of
//! the other calls, and a table per thread. If they were measured, it also contains CPU time and
//! bytes read and written.
//!
//! Start-up rows, which belong to no thread and are not part of the wall time, are shown as a line
//! at the top.

use std::collections::HashSet;
use std::fmt::Write;

use crate::counted::counted;
use crate::frameworks;
use crate::label;
use crate::number::{duration, grouped, share};
use crate::regions;
use crate::simple::counters::{self, paint_cpu, paint_io};
use crate::simple::lightning::{append_data_waiting, append_remarks, title};
use crate::simple::rows::{RowKey, Rows};
use crate::simple::selection::{ALL_ROWS_HINT, Running, Selection};
use crate::simple::{ActionStatistics, DurationStatistics, SimpleReport, ThreadStatistics};
use crate::table::{Column, Table, count, digits, percent, small_rows, table, words};
use mlprof_events::OrderExt;

/// Maximum number of threads with their own table. The others are counted, and JSON contains all of
/// them.
const THREADS_SHOWN: usize = 16;

/// Renders the report, ordered by self time. Self times add up to the wall time for a thread that
/// was always inside an action.
pub fn paint(report: &SimpleReport) -> String {
    paint_rows(report, &Rows::default())
}

/// Renders the report for the console. One row stands for all rows below 0.1 % of the wall time.
pub fn paint_on_console(report: &SimpleReport) -> String {
    paint_selection(report, &Selection::on_console(&report.header))
}

/// Renders the report with selected rows or in another order.
pub fn paint_rows(report: &SimpleReport, rows: &Rows<'_>) -> String {
    paint_selection(report, &rows.into())
}

fn paint_selection(report: &SimpleReport, rows: &Selection<'_>) -> String {
    let wall = report.header.wall_seconds;
    let threads = threads_by_weight(report);
    let mut text = heading(report);
    paint_summary(&mut text, report, threads.first().copied());
    let actions = without_startup(report);
    if actions.is_empty() {
        text.push_str("\nNo action has ended.\n");
    } else {
        let all = if threads.len() > 1 { "all threads, " } else { "" };
        let order = match rows.rows.sort_by {
            None => "most self time first".to_owned(),
            Some(key) => format!("by {}", key.as_str()),
        };
        let _ = writeln!(text, "\nActions, {all}{order}");
        let shown = paint_actions(&mut text, &actions, wall, rows);
        if rows.least_seconds > 0.0 && shown.len() < actions.len() {
            text.push_str(ALL_ROWS_HINT);
        }
        paint_legend(&mut text, &threads);
        paint_counters(&mut text, &shown, all, rows);
        let devices = shown.iter().map(|row| (row.label(), row.device.as_ref()));
        regions::append_actions(&mut text, devices);
    }
    if threads.len() > 1 {
        paint_threads(&mut text, &threads, wall, rows);
    }
    regions::append(&mut text, &report.device_regions);
    if !report.open.is_empty() || !report.header.notes.is_empty() {
        text.push('\n');
        append_remarks(&mut text, &report.open, &report.header.notes);
    }
    text
}

fn without_startup(report: &SimpleReport) -> Vec<&ActionStatistics> {
    report.actions.iter().filter(|row| !report.is_startup(row)).collect()
}

fn heading(report: &SimpleReport) -> String {
    let header = &report.header;
    let rank = match header.world_size {
        0 | 1 => String::new(),
        size => format!(" (rank {} of {size})", header.rank),
    };
    format!("{}{rank}\n\n", title(header))
}

/// Appends the distribution of the wall time and the measurement overhead. Writing into a string
/// cannot fail, so the results are ignored.
fn paint_summary(text: &mut String, report: &SimpleReport, main: Option<&ThreadStatistics>) {
    let header = &report.header;
    let wall = header.wall_seconds;
    let started = header.started_at.date_and_time();
    let _ = writeln!(text, "Wall time   {} since {started} UTC", duration(wall));
    if let Some(main) = main.filter(|thread| thread.threads <= 1) {
        let inside = self_seconds(&main.actions);
        let outside = (wall - inside).max(0.0);
        let running = report.open.iter().any(|open| open.thread == main.thread);
        let running = if running { " or in running actions" } else { "" };
        let _ = writeln!(
            text,
            "            {} ({}) in actions of thread {}, {} ({}) outside{running}",
            duration(inside),
            share(inside, wall),
            label::shown(&main.thread),
            duration(outside),
            share(outside, wall),
        );
    }
    if let Some(frameworks) = frameworks::in_words(header) {
        let _ = writeln!(text, "Framework   {frameworks}");
    }
    let overhead = &header.overhead;
    let _ = writeln!(
        text,
        "Profiler    {} scopes × {} = {}, estimated ({} of the wall time)",
        grouped(overhead.scopes),
        duration(overhead.seconds_per_scope),
        duration(overhead.total_seconds()),
        share(overhead.total_seconds(), wall),
    );
    if let Some(startup) = &header.startup {
        let total = duration(startup.total_seconds);
        let _ = match startup.before_main_seconds {
            Some(part) => writeln!(
                text,
                "Start-up    {total} from the start of the process to its first action, including \
                 {} before main; not part of the wall time",
                duration(part),
            ),
            None => writeln!(text, "Start-up    {total} from main to the first action"),
        };
    }
    append_data_waiting(text, report);
}

/// Appends the table of actions and returns the shown actions.
fn paint_actions<'rows>(
    text: &mut String,
    actions: &[&'rows ActionStatistics],
    wall: f64,
    rows: &Selection<'_>,
) -> Vec<&'rows ActionStatistics> {
    // Rows are ordered by self time. Open calls have no self time yet, so they are ignored.
    let shown = rows.select(actions.iter().copied(), RowKey::SelfTime, &Running::default());
    // Reports of files show all of up to ten thousand rows, so each row is looked up in a set.
    let places: HashSet<_> = shown.iter().map(|row| std::ptr::from_ref(*row)).collect();
    let is_shown = |row: &&ActionStatistics| places.contains(&std::ptr::from_ref(*row));
    let left_out = actions.iter().copied().filter(|row| !is_shown(row));
    let all: Vec<_> = shown.iter().copied().chain(left_out).collect();
    let more = actions.len() - shown.len();
    let rest = match rows.least_seconds > 0.0 {
        true => small_rows(more),
        false => counted(more as u64, "other row", "other rows"),
    };
    text.push_str(&actions_table(&all, wall).rest(rest).with_sum().text(shown.len()));
    shown
}

/// Appends the operating system counters with their legends.
fn paint_counters(text: &mut String, shown: &[&ActionStatistics], all: &str, rows: &Selection<'_>) {
    let is_sorted = rows.rows.sort_by.is_some();
    if paint_cpu(text, shown, all, is_sorted) {
        text.push_str(counters::CPU_LEGEND);
    }
    if paint_io(text, shown, all, is_sorted) {
        text.push_str(counters::IO_LEGEND);
    }
}

/// Returns a column of the distribution of all calls except the first.
fn other_calls(title: &'static str) -> Column {
    digits(3, title, "").absent("-   ")
}

fn actions_table(actions: &[&ActionStatistics], wall: f64) -> Table {
    table!("Actions", actions, |row| {
        let rest = |pick: fn(&DurationStatistics) -> f64| row.rest.as_ref().map(pick);
        words("Action", "") => row.label(),
        count("Calls", "").adds_up() => row.calls,
        digits(4, "Total", "") => row.total_seconds,
        digits(4, "Self", "").adds_up() => row.self_seconds,
        percent("Self %", "").adds_up() => (wall != 0.0).then(|| row.self_seconds / wall),
        digits(3, "First", "") => row.first_seconds,
        other_calls("Mean") => rest(|rest| rest.mean_seconds),
        other_calls("Min") => rest(|rest| rest.min_seconds),
        other_calls("p50") => rest(|rest| rest.p50_seconds),
        other_calls("p95") => rest(|rest| rest.p95_seconds),
        other_calls("Max") => rest(|rest| rest.max_seconds),
    })
}

fn paint_legend(text: &mut String, threads: &[&ThreadStatistics]) {
    text.push_str(
        "Self: without the actions inside; %: of the wall time. First: the first call; Mean to \
         Max: the other calls.\n",
    );
    if threads.len() > 1 || threads.iter().any(|thread| thread.threads > 1) {
        text.push_str("Threads run in parallel: their self times can exceed the wall time.\n");
    }
}

fn paint_threads(
    text: &mut String,
    threads: &[&ThreadStatistics],
    wall: f64,
    rows: &Selection<'_>,
) {
    for thread in threads.iter().take(THREADS_SHOWN) {
        let name = label::shown(&thread.thread);
        let _ = match thread.threads {
            0 | 1 => writeln!(text, "\nThread {name}"),
            threads => writeln!(text, "\n{} ended threads named {name}", grouped(threads)),
        };
        let actions: Vec<_> = thread.actions.iter().collect();
        let shown = paint_actions(text, &actions, wall, rows);
        paint_cpu(text, &shown, "", rows.rows.sort_by.is_some());
        paint_io(text, &shown, "", rows.rows.sort_by.is_some());
    }
    if let Some(more) = threads.get(THREADS_SHOWN..).filter(|more| !more.is_empty()) {
        let count = more.iter().map(|thread| thread.threads.max(1)).sum();
        let own: f64 = more.iter().map(|thread| self_seconds(&thread.actions)).sum();
        let _ = writeln!(
            text,
            "\n{} more threads, {} of self time in total, are only in the JSON report.",
            grouped(count),
            duration(own)
        );
    }
}

/// Returns the threads by self time, with the main thread first. The main thread is the one named
/// `main`.
fn threads_by_weight(report: &SimpleReport) -> Vec<&ThreadStatistics> {
    let mut threads: Vec<_> = report.threads.iter().collect();
    threads.order_by(|a, b| {
        let weight = |thread: &ThreadStatistics| self_seconds(&thread.actions);
        let main_first = (b.thread == "main").cmp(&(a.thread == "main"));
        main_first.then_with(|| weight(b).total_cmp(&weight(a)))
    });
    threads
}

fn self_seconds<'rows>(actions: impl IntoIterator<Item = &'rows ActionStatistics>) -> f64 {
    // `sum()` would return -0 for an empty list.
    actions.into_iter().fold(0.0, |sum, row| sum + row.self_seconds)
}
