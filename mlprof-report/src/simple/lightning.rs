//! Simple report in the format of Lightning, byte for byte.
//!
//! The output differs from Lightning only in cases that Lightning does not have:
//!
//! - Control characters in names are escaped, and names are truncated to 200 characters.
//! - Rows of the sanity check have the prefix `[SanityCheck]`.
//! - Start-up rows have no percentage, because they are not part of the wall time.
//! - Rows `… [device]` with device times are below the rows of the host, and also have no
//!   percentage.
//! - Two columns of device time follow Lightning's columns, if it was measured (`measure_devices`).
//! - A row with a running action is sorted as if the action had ended.
//!
//! Additional lines follow the table, if they apply:
//!
//! - An explanation of nested rows, with the largest self times.
//! - The wait for data.
//! - Running actions and notes.

use std::fmt::Write;

use crate::label;
use crate::number::{duration, five_digits, share};
use crate::regions::{DEVICE_TIME, DeviceRegion, DeviceTime, MARK};
use crate::simple::rows::{RowKey, Rows};
use crate::simple::selection::{Running, Selection};
use crate::simple::{ActionStatistics, SimpleReport};
use crate::table::LEAST_SHARE;
use crate::{OpenAction, ReportHeader};
use mlprof_events::OrderExt;

/// Renders Lightning's table.
///
/// With `extended`, the columns are mean, number of calls, total and percentage of the wall time,
/// ordered by total. Otherwise, the columns are mean and total, ordered by mean. Equal rows keep
/// the order of the report.
pub fn paint(report: &SimpleReport, extended: bool) -> String {
    paint_rows(report, extended, &Rows::default())
}

/// Renders the table for the console. It hides rows below 0.1 % of the wall time, and a line counts
/// them.
pub fn paint_on_console(report: &SimpleReport, extended: bool) -> String {
    paint_selection(report, extended, &Selection::on_console(&report.header))
}

/// Renders the table with selected rows or in another order.
pub fn paint_rows(report: &SimpleReport, extended: bool, selected: &Rows<'_>) -> String {
    paint_selection(report, extended, &selected.into())
}

fn paint_selection(report: &SimpleReport, extended: bool, selected: &Selection<'_>) -> String {
    let mut text = format!("{}\n", title(&report.header));
    let own_key = if extended { RowKey::Total } else { RowKey::Mean };
    let running = Running::of(&report.open);
    let rows = selected.select(&report.actions, own_key, &running);
    let rows: Vec<_> = rows.into_iter().map(|row| (label::shown(&row.label()), row)).collect();
    let regions: Vec<_> = report
        .device_regions
        .iter()
        .filter(|region| selected.rows.is_shown.is_none_or(|is_shown| is_shown(&region.label())))
        .map(|region| (label::shown(&format!("{}{MARK}", region.label())), region))
        .collect();
    let labels = rows.iter().map(|(label, _)| label).chain(regions.iter().map(|(label, _)| label));
    let name_width = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    if extended {
        // Lightning also omits an empty table.
        if !rows.is_empty() {
            paint_extended(&mut text, report, &rows, &regions, name_width);
        }
    } else {
        paint_plain(&mut text, &rows, &regions, name_width);
    }
    text.push('\n');
    if let Some(note) = selected.note(rows.len(), report.actions.len()) {
        text.push_str(&note);
        text.push('\n');
    }
    if rows.iter().any(|(_, row)| row.device.is_some()) {
        text.push_str(DEVICE_TIME);
    }
    append_self_times(&mut text, report);
    append_data_waiting(&mut text, report);
    append_remarks(&mut text, &report.open, &report.header.notes);
    append_running(&mut text, report, &running);
    text
}

/// Maximum number of rows named by [`append_self_times`].
const SELF_TIMES_SHOWN: usize = 3;

/// Appends a note that rows nest, and the rows with the largest self times. Appends no text if no
/// row is nested in another one.
fn append_self_times(text: &mut String, report: &SimpleReport) {
    let mut rows: Vec<_> = report.actions.iter().filter(|row| !report.is_startup(row)).collect();
    // The tolerance covers rounding differences between sums of durations.
    if rows.iter().all(|row| row.self_seconds >= row.total_seconds * (1.0 - 1e-9)) {
        return;
    }
    rows.order_by(|one, other| other.self_seconds.total_cmp(&one.self_seconds));
    let wall = report.header.wall_seconds;
    // The first row is always shown.
    let is_long = |(place, row): &(usize, &&ActionStatistics)| {
        *place == 0 || row.self_seconds >= LEAST_SHARE * wall
    };
    let largest = rows.iter().enumerate().take(SELF_TIMES_SHOWN).filter(is_long).map(|(_, row)| {
        let (own, share) = (duration(row.self_seconds), share(row.self_seconds, wall));
        format!("{} {own} ({share})", label::shown(&row.label()))
    });
    let largest: Vec<_> = largest.collect();
    // Writing into a string cannot fail.
    let _ = writeln!(
        text,
        "Rows nest: a row includes the time of the rows inside it, so percentages add up to more \
         than 100 %.\nRows with the most time of their own (self time): {}",
        largest.join(", ")
    );
}

/// Appends an explanation of the order of rows with running actions.
fn append_running(text: &mut String, report: &SimpleReport, running: &Running<'_>) {
    if report.actions.iter().any(|row| running.seconds(&row.action) > 0.0) {
        text.push_str(
            "Rows contain ended calls only; running calls count for the order of rows.\n",
        );
    }
}

/// Appends `Waiting for data: 1.23 s of 20.1 s in training epochs (6.12 %)`, if it is known.
pub(crate) fn append_data_waiting(text: &mut String, report: &SimpleReport) {
    let Some(data) = &report.data_waiting else { return };
    let (whole, of) = match data.epoch_seconds {
        Some(seconds) => (seconds, "in training epochs"),
        None => (report.header.wall_seconds, "wall time"),
    };
    let (waiting, whole) = (duration(data.waiting_seconds), duration(whole));
    let percentage = share(data.share, 1.0);
    // Writing into a string cannot fail.
    let _ = writeln!(text, "Waiting for data: {waiting} of {whole} {of} ({percentage})");
}

/// Returns the title, such as `FIT Profiler Report`.
pub(crate) fn title(header: &ReportHeader) -> String {
    match header.stage {
        Some(stage) => format!("{} Profiler Report", stage.as_str().to_uppercase()),
        None => "Profiler Report".to_owned(),
    }
}

/// Maximum number of running actions with a line.
const OPEN_SHOWN: usize = 20;

/// Appends the running actions and the notes, one line each.
pub(crate) fn append_remarks(text: &mut String, open: &[OpenAction], notes: &[String]) {
    for OpenAction { action, thread, elapsed_seconds } in open.iter().take(OPEN_SHOWN) {
        let (action, thread) = (label::shown(action), label::shown(thread));
        // Writing into a string cannot fail.
        let _ = writeln!(text, "Still running: {action} on {thread} for {elapsed_seconds:.3} s");
    }
    if let Some(more) = open.get(OPEN_SHOWN..).filter(|more| !more.is_empty()) {
        let _ = writeln!(text, "Still running: and {} more", more.len());
    }
    text.push_str(&label::notes(notes));
}

fn paint_extended(
    text: &mut String,
    report: &SimpleReport,
    rows: &[(String, &ActionStatistics)],
    regions: &[(String, &DeviceRegion)],
    name_width: usize,
) {
    let wall = report.header.wall_seconds;
    let calls: u64 = report.actions.iter().map(|row| row.calls).sum();
    let devices = DeviceColumns::of(rows);
    let titles = ["Action", "Mean duration (s)", "Num calls", "Total time (s)", "Percentage %"];
    let header = devices.titles(table_row(name_width, titles));
    let rule = rule_below(&header);
    text.extend([rule.as_str(), &header, &rule]);
    let total = ["Total", "-", &calls.to_string(), &five_digits(wall), "100 %"];
    text.push_str(&devices.cells(table_row(name_width, total), None));
    text.push_str(&rule);
    for (label, statistics) in rows {
        let mean = five_digits(statistics.mean_seconds());
        let calls = statistics.calls.to_string();
        let total = five_digits(statistics.total_seconds);
        let percentage = match report.is_startup(statistics) {
            true => "-".to_owned(),
            false => five_digits(100.0 * statistics.total_seconds / wall),
        };
        let row = table_row(name_width, [label, &mean, &calls, &total, &percentage]);
        text.push_str(&devices.cells(row, statistics.device.as_ref()));
    }
    for (label, region) in regions {
        let (mean, calls) = (five_digits(region.mean_seconds()), region.calls.to_string());
        let total = five_digits(region.total_seconds);
        let row = table_row(name_width, [label, &mean, &calls, &total, "-"]);
        text.push_str(&devices.cells(row, None));
    }
    text.push_str(&rule);
}

fn paint_plain(
    text: &mut String,
    rows: &[(String, &ActionStatistics)],
    regions: &[(String, &DeviceRegion)],
    name_width: usize,
) {
    let devices = DeviceColumns::of(rows);
    let titles = ["Action", "Mean duration (s)", "Total time (s)"];
    let header = devices.titles(table_row(name_width, titles));
    let rule = rule_below(&header);
    text.extend([rule.as_str(), &header, &rule]);
    for (label, statistics) in rows {
        let mean = five_digits(statistics.mean_seconds());
        let total = five_digits(statistics.total_seconds);
        let row = table_row(name_width, [label, &mean, &total]);
        text.push_str(&devices.cells(row, statistics.device.as_ref()));
    }
    for (label, region) in regions {
        let mean = five_digits(region.mean_seconds());
        let total = five_digits(region.total_seconds);
        text.push_str(&devices.cells(table_row(name_width, [label, &mean, &total]), None));
    }
    text.push_str(&rule);
}

/// The two columns of device time after Lightning's columns, if any row has a device time.
struct DeviceColumns {
    are_there: bool,
}

impl DeviceColumns {
    fn of(rows: &[(String, &ActionStatistics)]) -> Self {
        Self { are_there: rows.iter().any(|(_, row)| row.device.is_some()) }
    }

    fn titles(&self, row: String) -> String {
        self.append(row, ["Device mean (s)", "Device time (s)"])
    }

    /// Appends the device time to a row, or `-` if there is none.
    fn cells(&self, row: String, device: Option<&DeviceTime>) -> String {
        match device {
            None => self.append(row, ["-", "-"]),
            Some(device) => {
                let (mean, total) =
                    (five_digits(device.mean_seconds()), five_digits(device.total_seconds));
                self.append(row, [&mean, &total])
            }
        }
    }

    fn append(&self, mut row: String, cells: [&str; 2]) -> String {
        if self.are_there {
            for cell in cells {
                let _ = write!(row, "  {cell:<15}\t|");
            }
        }
        row
    }
}

/// Returns a line break and the row.
fn table_row<const COLUMNS: usize>(name_width: usize, cells: [&str; COLUMNS]) -> String {
    let mut row = "\n|".to_owned();
    for (column, cell) in cells.into_iter().enumerate() {
        let width = if column == 0 { name_width } else { 15 };
        let _ = write!(row, "  {cell:<width$}\t|");
    }
    row
}

/// Returns a line break and a rule with as many dashes as `row` has columns. The row's own line
/// break counts as one column.
fn rule_below(row: &str) -> String {
    const TAB_STOP: usize = 8;
    let columns = row.trim_start().chars().fold(0, |column, character| match character {
        '\t' => (column / TAB_STOP + 1) * TAB_STOP,
        _ => column + 1,
    });
    format!("\n{}", "-".repeat(columns + 1))
}
