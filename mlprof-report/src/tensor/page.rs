//! Tensor report as text: the recorded steps, the table, the modules and the notes.

use std::fmt::Write;

use crate::counted::counted;
use crate::frameworks;
use crate::label;
use crate::number::{duration, grouped};
use crate::regions;
use crate::simple::lightning::{append_remarks, title};
use crate::tensor::device_counters;
use crate::tensor::device_idle;
use crate::tensor::modules;
use crate::tensor::{TableOptions, TensorReport};

/// Width of the report in columns of a wide terminal.
const PAGE_WIDTH: usize = 200;
/// Minimum width of the name column. Names are not truncated further, even if the table is wider
/// than a page.
const SHORTEST_NAMES: usize = 30;

/// Renders the report.
pub fn paint(report: &TensorReport, options: &TableOptions) -> String {
    let mut text = format!("{}\n\n", title(&report.header));
    paint_coverage(&mut text, report);
    if let Some(frameworks) = frameworks::in_words(&report.header) {
        let _ = writeln!(text, "Framework: {frameworks}");
    }
    let table = table_on_page(report, options);
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table);
        text.push_str("CPU time is wall time on the host, as in torch: it includes waiting.\n");
        paint_cut(&mut text, report, options);
    }
    let parts = [
        device_idle::paint(&report.device_idle),
        device_counters::paint(&report.device_counters),
        modules::paint(&report.modules),
    ];
    for part in parts.iter().filter(|part| !part.is_empty()) {
        text.push('\n');
        text.push_str(part);
    }
    paint_tuning(&mut text, report);
    regions::append(&mut text, &report.device_regions);
    if !report.files.is_empty() || !report.header.notes.is_empty() {
        text.push('\n');
    }
    for file in &report.files {
        let _ = writeln!(text, "Written: {}", label::one_line(file));
    }
    append_remarks(&mut text, &[], &report.header.notes);
    text
}

/// Renders the table. If it is wider than the page, its names are truncated more than torch does.
/// If that is not sufficient, the columns about bytes are omitted.
fn table_on_page(report: &TensorReport, options: &TableOptions) -> String {
    let table = report.key_averages.table(options);
    let rule = table.lines().find(|line| line.starts_with("--")).map_or("", str::trim_end);
    let excess = rule.chars().count().saturating_sub(PAGE_WIDTH);
    let names = rule.split(' ').next().map_or(0, str::len);
    if excess > names.saturating_sub(SHORTEST_NAMES) && options.bytes {
        return table_on_page(report, &TableOptions { bytes: false, ..options.clone() });
    }
    if excess == 0 || names <= SHORTEST_NAMES {
        return table;
    }
    let max_name_column_width = Some(names.saturating_sub(excess).max(SHORTEST_NAMES));
    report.key_averages.table(&TableOptions { max_name_column_width, ..options.clone() })
}

/// Appends the recorded steps and the measurement overhead. Writing into a string cannot fail, so
/// the results are ignored.
fn paint_coverage(text: &mut String, report: &TensorReport) {
    let events: u64 = report.header.overhead.scopes;
    if report.cycle_count == 0 || (events == 0 && report.recorded_steps == 0) {
        text.push_str("Nothing was recorded.\n");
        return;
    }
    let what = match (report.schedule, report.recorded_steps, report.steps) {
        (None, ..) => "The whole stage".to_owned(),
        (Some(_), 0, 1..) => "Events after the last step".to_owned(),
        (Some(_), 0 | 1, _) => format!("Step {} (counted from 0)", steps_of(report)),
        (Some(_), ..) => format!("Steps {} (counted from 0)", steps_of(report)),
    };
    // Events after the last step form a cycle without steps, which is mentioned separately.
    let (mut rest, mut count) = ("", report.cycle_count);
    if report.recorded_steps > 0 && report.cycles.iter().any(|cycle| cycle.steps == 0) {
        (rest, count) = (" and events after the last one", count - 1);
    }
    let cycles = match count {
        1 => String::new(),
        count => format!(" in {} cycles", grouped(count)),
    };
    let wall = report.header.wall_seconds;
    let cost = report.header.overhead.total_seconds();
    let _ = writeln!(
        text,
        "{what}{cycles}{rest}: {} events in {} of wall time; recording them took about {}, not \
         counting hooks",
        grouped(events),
        duration(recorded_seconds(report).unwrap_or(wall)),
        duration(cost),
    );
}

/// Returns the total duration of the cycles in seconds, if all of them are listed.
fn recorded_seconds(report: &TensorReport) -> Option<f64> {
    let all = report.cycles.len() as u64 == report.cycle_count;
    all.then(|| report.cycles.iter().map(|cycle| cycle.wall_seconds).sum())
}

/// Returns the step numbers of the first few cycles: `2 to 4, 7 to 9, …`.
fn steps_of(report: &TensorReport) -> String {
    const SHOWN: usize = 4;
    let shown = report.cycles.iter().filter(|cycle| report.recorded_steps == 0 || cycle.steps > 0);
    let steps = shown.take(SHOWN).map(|cycle| match cycle.steps {
        0 | 1 => cycle.first_step.to_string(),
        steps => format!("{} to {}", cycle.first_step, cycle.first_step + steps - 1),
    });
    let mut steps: Vec<_> = steps.collect();
    if report.cycle_count > SHOWN as u64 {
        steps.push("…".to_owned());
    }
    steps.join(", ")
}

fn paint_cut(text: &mut String, report: &TensorReport, options: &TableOptions) {
    let rows = report.key_averages.rows.len();
    let Some(limit) = options.row_limit.filter(|limit| rows > *limit) else { return };
    let _ = writeln!(text, "{} of {} rows are shown.", grouped(limit as u64), grouped(rows as u64));
}

fn paint_tuning(text: &mut String, report: &TensorReport) {
    if report.tuning.is_empty() {
        return;
    }
    let count = report.tuning.iter().map(|kernel| kernel.count).sum();
    let seconds = report.tuning.iter().fold(0.0, |sum, kernel| sum + kernel.device_seconds);
    let _ = writeln!(
        text,
        "\nCompiling and tuning kernels: {}, {}; not in the table. Longest kernels:",
        counted(count, "time", "times"),
        duration(seconds)
    );
    for kernel in report.tuning.iter().take(5) {
        let name = label::shown(&kernel.name);
        let _ = writeln!(
            text,
            "  {} in {}: {name}",
            duration(kernel.device_seconds),
            counted(kernel.count, "run", "runs")
        );
    }
}
