//! Actions and how long they took.

use std::fmt::Write;

use super::Part;
use super::limits::largest;
use super::nesting::nested;
use super::table::{Column, Merge, Table, Unit};
use super::text;
use super::threads;
use crate::regions::{DeviceRegion, DeviceTime};
use crate::simple::{ActionStatistics, DurationStatistics, SimpleReport};

const COLUMNS: [Column; 19] = [
    Column::new("Action", Unit::Text, "What ran").merge(Merge::Key),
    Column::new("Calls", Unit::Count, "How many calls have ended").merge(Merge::Sum),
    Column::new("Total", Unit::Seconds, "All calls, with the actions inside")
        .merge(Merge::Sum)
        .bar(),
    Column::new("Share", Unit::Share, "Total as a part of the wall time").merge(Merge::Sum),
    Column::new("Self", Unit::Seconds, "Without the actions inside: these add up")
        .merge(Merge::Sum)
        .bar(),
    Column::new("Mean", Unit::Seconds, "The mean of the calls except the first"),
    Column::new(
        "First",
        Unit::Seconds,
        "The very first call: compilation, tuning, warm-up. It is in none of Mean, Min, p50, p95 and Max",
    ),
    Column::new("Min", Unit::Seconds, "The shortest call but the first"),
    Column::new("p50", Unit::Seconds, "Half of the calls but the first took no longer"),
    Column::new("p95", Unit::Seconds, "95 % of the calls but the first took no longer"),
    Column::new("Max", Unit::Seconds, "The longest call but the first"),
    Column::new(
        "Spread",
        Unit::Markup,
        "From the shortest to the longest call except the first, on a logarithmic scale that all rows share; the box reaches from p50 to p95",
    ),
    Column::new("CPU", Unit::Seconds, "CPU time of the thread that ran it"),
    Column::new(
        "Waiting",
        Unit::Seconds,
        "The rest: for devices, files, locks, other threads or a core",
    ),
    Column::new("Cores", Unit::Number, "How many cores the process kept busy meanwhile"),
    Column::new("Read", Unit::Bytes, "Bytes that calls read"),
    Column::new("Written", Unit::Bytes, "Bytes that calls wrote"),
    Column::new(
        "Device",
        Unit::Seconds,
        "All calls by the device's clock, each from the first work that it handed over to the last, with pauses",
    ),
    Column::new("Device mean", Unit::Seconds, "Device by the calls that handed over work"),
];

/// Stands in the caption of tables with a column First.
pub(super) const FIRST_APART: &str =
    "Mean to Max: all calls except the first, which stands under First.";

/// Everything that a Simple report has.
pub(super) fn write(html: &mut String, report: &SimpleReport, part: &Part) {
    let wall = report.header.wall_seconds;
    part.heading(html, "actions", "Actions");
    write_actions(html, &report.actions, wall, part, "Actions of all threads");
    if report.threads.len() > 1 {
        part.heading(html, "threads", "Threads");
        threads::write(html, &report.threads, wall, part);
        let _ = write!(html, "<details><summary>The actions of each of them</summary>");
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
    let mut table = Table::new(COLUMNS).sorted_by(2);
    if rows.iter().any(|(depth, _)| *depth > 0) {
        table = table.nested();
    }
    for (depth, row) in rows {
        let rest = |pick: fn(&DurationStatistics) -> f64| row.rest.as_ref().map(pick);
        let cells = [
            text::name(&row.label(), part.limits.name).into(),
            row.calls.into(),
            row.total_seconds.into(),
            (wall > 0.0).then(|| row.total_seconds / wall).into(),
            row.self_seconds.into(),
            rest(|rest| rest.mean_seconds).into(),
            row.first_seconds.into(),
            rest(|rest| rest.min_seconds).into(),
            rest(|rest| rest.p50_seconds).into(),
            rest(|rest| rest.p95_seconds).into(),
            rest(|rest| rest.max_seconds).into(),
            row.rest.as_ref().map_or_else(String::new, |rest| scale.picture(rest)).into(),
            row.cpu.map(|cpu| cpu.thread_seconds).into(),
            row.waiting_seconds().into(),
            row.busy_cores().into(),
            row.io.map(|io| io.read_bytes as f64).into(),
            row.io.map(|io| io.written_bytes as f64).into(),
            row.device.map(|device| device.total_seconds).into(),
            row.device.map(|device| device.mean_seconds()).into(),
        ];
        table.row_at(depth, cells);
    }
    table.write(html, &format!("{caption}. {FIRST_APART}"));
}

/// Device time of actions, for reports whose table of actions has no columns for it.
pub(super) fn write_device_times(html: &mut String, actions: &[(String, DeviceTime)], part: &Part) {
    if actions.is_empty() {
        return;
    }
    let as_region = |(action, device): &(String, DeviceTime)| DeviceRegion {
        action: action.clone(),
        sub_stage: None,
        calls: device.calls,
        total_seconds: device.total_seconds,
        min_seconds: device.min_seconds,
        max_seconds: device.max_seconds,
    };
    let rows: Vec<_> = actions.iter().map(as_region).collect();
    part.heading(html, "device", "Device time of actions");
    write_region_table(html, "Action", &rows, part);
}

/// Regions of devices.
pub(super) fn write_regions(html: &mut String, regions: &[DeviceRegion], part: &Part) {
    if regions.is_empty() {
        return;
    }
    part.heading(html, "regions", "Device regions");
    write_region_table(html, "Region", regions, part);
}

fn write_region_table(
    html: &mut String,
    title: &'static str,
    regions: &[DeviceRegion],
    part: &Part,
) {
    let mut table = Table::new([
        Column::new(title, Unit::Text, "What ran").merge(Merge::Key),
        Column::new("Calls", Unit::Count, "How many have run"),
        Column::new("Total", Unit::Seconds, "All of them").bar(),
        Column::new("Mean", Unit::Seconds, "Total by calls"),
        Column::new("Min", Unit::Seconds, "The shortest"),
        Column::new("Max", Unit::Seconds, "The longest"),
    ])
    .sorted_by(2);
    for region in regions.iter().take(part.limits.rows) {
        table.row([
            text::name(&region.label(), part.limits.name).into(),
            region.calls.into(),
            region.total_seconds.into(),
            region.mean_seconds().into(),
            region.min_seconds.into(),
            region.max_seconds.into(),
        ]);
    }
    table.write(html, "Times of the device's clock: no part of the host's");
}

/// From the shortest to the longest of all calls except the first, by powers.
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

    /// A line from the shortest to the longest, a box from the median to the 95th percentile.
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
