//! HTML of a Simple report: actions and their durations.

use std::fmt::Write;

use super::Part;
use super::limits::largest;
use super::nesting::nested;
use super::threads;
use crate::regions::{self, DeviceRegion, DeviceTime};
use crate::simple::{ActionStatistics, DurationStatistics, SimpleReport};
use crate::table::{Cell, bytes, count, markup, number, seconds, share, table, words};

/// Note in the caption of tables with a column `First`.
pub(super) const FIRST_APART: &str =
    "Mean to Max cover all calls except the first, which is in the column First.";

/// Writes all parts of a Simple report.
pub(super) fn write(html: &mut String, report: &SimpleReport, part: &Part) {
    let wall = report.header.wall_seconds;
    part.heading(html, "actions", "Actions");
    write_actions(html, &report.actions, wall, part, "Actions of all threads");
    if report.threads.len() > 1 {
        part.heading(html, "threads", "Threads");
        threads::write(html, &report.threads, wall, part);
        let _ = write!(html, "<details><summary>Actions of each thread</summary>");
        for thread in report.threads.iter().take(part.limits.rows) {
            let name = threads::title(&thread.thread, thread.threads);
            write_actions(html, &thread.actions, wall, part, &name);
        }
        html.push_str("</details>");
    }
    write_regions(html, &report.device_regions, part);
}

fn write_actions(
    html: &mut String,
    actions: &[ActionStatistics],
    wall: f64,
    part: &Part,
    caption: &str,
) {
    let mut rows: Vec<_> = largest(actions, part.limits.rows, |row| row.total_seconds).collect();
    rows.sort_by(|one, other| other.total_seconds.total_cmp(&one.total_seconds));
    let scale = Scale::of(rows.iter().filter_map(|row| row.rest.as_ref()));
    let rows = nested(&rows);
    let is_nested = rows.iter().any(|(depth, _)| *depth > 0);
    let depths: Vec<usize> = rows.iter().map(|(depth, _)| *depth).collect();
    let table = table!(format!("{caption}. {FIRST_APART}"), rows, |(_, row)| {
        let rest = |pick: fn(&DurationStatistics) -> f64| row.rest.as_ref().map(pick);
        let spread = row.rest.as_ref().map_or_else(String::new, |rest| scale.picture(rest));
        words("Action", "Name of the action").key() => row.label(),
        count("Calls", "Number of ended calls").sum() => row.calls,
        seconds("Total", "Time of all calls, including the actions inside").sum().bar() => row.total_seconds,
        share("Share", "Total as a share of the wall time").sum() =>
            (wall > 0.0).then(|| row.total_seconds / wall),
        seconds("Self", "Time without the actions inside: these values add up").sum().bar() =>
            row.self_seconds,
        seconds("Mean", "Mean of all calls except the first") => rest(|rest| rest.mean_seconds),
        seconds(
            "First",
            "First call: compilation, tuning, warm-up. Mean, Min, p50, p95 and Max exclude it",
        ) => row.first_seconds,
        seconds("Min", "Shortest call except the first") => rest(|rest| rest.min_seconds),
        seconds("p50", "Median of the calls except the first") =>
            rest(|rest| rest.p50_seconds),
        seconds("p95", "95th percentile of the calls except the first") =>
            rest(|rest| rest.p95_seconds),
        seconds("Max", "Longest call except the first") => rest(|rest| rest.max_seconds),
        markup(
            "Spread",
            "Range from the shortest to the longest call except the first, on a logarithmic scale \
             shared by all rows; the box spans p50 to p95",
        ) => Cell::Markup(spread),
        seconds("CPU", "CPU time of the thread that ran it") =>
            row.cpu.map(|cpu| cpu.thread_seconds),
        seconds("Waiting", "Remaining time: devices, files, locks, other threads or a core") =>
            row.waiting_seconds(),
        number("Cores", "Number of cores that the process kept busy meanwhile") => row.busy_cores(),
        bytes("Read", "Bytes read by calls") => row.io.map(|io| io.read_bytes as f64),
        bytes("Written", "Bytes written by calls") => row.io.map(|io| io.written_bytes as f64),
        seconds(
            "Device",
            "Device time of all calls, each from its first to its last work, including pauses",
        ) => row.device.map(|device| device.total_seconds),
        seconds("Device mean", "Device time divided by the calls that submitted work") =>
            row.device.map(|device| device.mean_seconds()),
    });
    table.sorted_by("Total").nested(is_nested).depths(depths).write_folding(
        html,
        part.limits,
        &[("Total", wall), ("Device", wall)],
    );
}

/// Writes the device time of actions, for reports without such columns in their table of actions.
pub(super) fn write_device_times<'rows>(
    html: &mut String,
    actions: impl Iterator<Item = (String, Option<&'rows DeviceTime>)>,
    part: &Part,
) {
    let table = regions::actions(actions);
    if !table.is_empty() {
        part.heading(html, "device", "Device time of actions");
        table.write(html, part.limits);
    }
}

/// Writes the device regions.
pub(super) fn write_regions(html: &mut String, regions: &[DeviceRegion], part: &Part) {
    if !regions.is_empty() {
        part.heading(html, "regions", "Device regions");
        regions::regions(regions).write(html, part.limits);
    }
}

/// Logarithmic scale from the shortest to the longest call, without first calls.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    const WIDTH: f64 = 90.0;

    fn of<'rows>(rows: impl Iterator<Item = &'rows DurationStatistics> + Clone) -> Self {
        let positive = |seconds: f64| seconds.max(1e-9);
        let least = rows.clone().map(|row| positive(row.min_seconds)).fold(f64::INFINITY, f64::min);
        let most = rows.map(|row| positive(row.max_seconds)).fold(0.0, f64::max);
        Self { least, most }
    }

    fn place(&self, seconds: f64) -> f64 {
        let range = (self.most / self.least).ln();
        let place = (seconds.max(1e-9) / self.least).ln() / range;
        1.0 + if place.is_finite() { (Self::WIDTH - 2.0) * place } else { 0.0 }
    }

    /// Draws a line from the shortest to the longest call, and a box from the median to the 95th
    /// percentile.
    fn picture(&self, rest: &DurationStatistics) -> String {
        let [min, p50, p95, max] =
            [rest.min_seconds, rest.p50_seconds, rest.p95_seconds, rest.max_seconds]
                .map(|seconds| self.place(seconds));
        let width = (p95 - p50).max(2.0);
        format!(
            "<svg class=spread width={} height=11 aria-hidden=true><path d=\"M{min:.1} 5.5H{max:.1}\"/>\
             <rect x={p50:.1} y=2 width={width:.1} height=7 /></svg>",
            Self::WIDTH
        )
    }
}
