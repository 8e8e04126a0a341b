//! Calls: as an icicle, as one table of all functions, and as tables per action.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::limits::largest;
use super::simple::{write_device_times, write_regions};
use super::table::{Cell, Column, Merge, Table, Unit};
use super::tensor::word;
use super::{Part, samples, text};
use crate::advanced::{ActionProfile, AdvancedReport, CallStatistics, FunctionKey};
use mlprof_events::ActionKind;

/// Tables per action are many: the first of them are enough, and the JSON has all.
const ACTIONS: usize = 24;

const COLUMNS: [Column; 8] = [
    Column::new("Function", Unit::Text, "Function, span or action").merge(Merge::Key),
    Column::new("Kind", Unit::Text, "What it stands for").merge(Merge::Key),
    Column::new("Place", Unit::Text, "File and line").merge(Merge::Key),
    Column::new("Calls", Unit::Count, "All calls (ncalls)").merge(Merge::Sum),
    Column::new("Self", Unit::Seconds, "Time in the function itself (tottime)")
        .merge(Merge::Sum)
        .bar(),
    Column::new("Self share", Unit::Share, "Self time as a part of all self times")
        .merge(Merge::Sum),
    Column::new("Total", Unit::Seconds, "With what it called (cumtime)").merge(Merge::Sum).bar(),
    Column::new("Per call", Unit::Seconds, "Total by calls that are not inside a call of it"),
];
const SELF: usize = 4;
const TOTAL: usize = 6;

/// Everything that an Advanced report has.
pub(super) fn write(html: &mut String, report: &AdvancedReport, part: &Part) {
    if report.threads.iter().any(|thread| !thread.roots.is_empty()) {
        part.heading(html, "calls", "Calls");
        part.icicle(
            html,
            "calls",
            "Who called what: the width is time, what is called stands below",
        );
        write_functions(html, report, part);
    }
    write_profiles(html, report, part);
    if let Some(samples) = &report.samples {
        samples::write(html, samples, part);
    }
    let devices = report.actions.iter().filter_map(|it| Some((it.label(), it.device?)));
    write_device_times(html, &devices.collect::<Vec<_>>(), part);
    write_regions(html, &report.device_regions, part);
}

/// All threads and actions together. A function stands at most once on each way down a tree, so that
/// its times add up.
fn write_functions(html: &mut String, report: &AdvancedReport, part: &Part) {
    let mut functions: FxHashMap<(&FunctionKey, ActionKind), CallStatistics> = FxHashMap::default();
    for (_, node) in report.threads.iter().flat_map(|thread| thread.nodes()) {
        let sum = functions.entry((&node.function, node.kind)).or_default();
        sum.total_calls += node.calls.total_calls;
        sum.primitive_calls += node.calls.primitive_calls;
        sum.self_seconds += node.calls.self_seconds;
        sum.cumulative_seconds += node.calls.cumulative_seconds;
    }
    let all: f64 = functions.values().map(|calls| calls.self_seconds).sum();
    let functions: Vec<_> = functions.into_iter().collect();
    let own = |(_, calls): &(_, CallStatistics)| calls.self_seconds;
    let mut rows: Vec<_> = largest(&functions, part.limits.rows, own).collect();
    rows.sort_by(|(one, a), (other, b)| {
        b.self_seconds.total_cmp(&a.self_seconds).then_with(|| one.0.cmp(other.0))
    });
    let mut table = Table::new(COLUMNS).sorted_by(SELF);
    for ((function, kind), calls) in rows {
        table.row(cells(function, word(kind), calls, all, part));
    }
    table.write(html, "Functions of all threads");
}

fn write_profiles(html: &mut String, report: &AdvancedReport, part: &Part) {
    let rows = (part.limits.rows / 20).max(1);
    // An action with nothing below it is a row of the table of all functions.
    let profiles: Vec<_> =
        report.actions.iter().filter(|profile| profile.functions.len() > 1).collect();
    if profiles.is_empty() {
        return;
    }
    part.heading(html, "profiles", "Actions, with what ran below each");
    for profile in profiles.iter().take(ACTIONS) {
        let name = text::name(&profile.label(), part.limits.name);
        let _ = write!(
            html,
            "<details><summary><b>{name}</b> <span class=quiet>{} in {} calls</span></summary>",
            Unit::Seconds.write(profile.total_seconds),
            Unit::Count.write(profile.calls as f64),
        );
        write_profile(html, profile, rows, part);
        html.push_str("</details>");
    }
    let more = profiles.len().saturating_sub(ACTIONS);
    if more > 0 {
        let _ = write!(html, "<p class=quiet>{more} more actions are only in the JSON report.</p>");
    }
}

fn write_profile(html: &mut String, profile: &ActionProfile, rows: usize, part: &Part) {
    let mut table = Table::new(COLUMNS).sorted_by(TOTAL);
    for function in profile.functions.iter().take(rows) {
        let all = profile.total_seconds;
        table.row(cells(&function.function, String::new(), &function.calls, all, part));
    }
    let caption = match profile.functions.len() {
        all if all > rows => format!("{rows} of {all} functions: the longest totals"),
        _ => "Functions below the action".to_owned(),
    };
    table.write(html, &caption);
}

fn cells(
    function: &FunctionKey,
    kind: String,
    calls: &CallStatistics,
    all: f64,
    part: &Part,
) -> [Cell; 8] {
    let place = match function.line {
        0 => String::new(),
        line => {
            let file = function.file.rsplit(['/', '\\']).next().unwrap_or_default();
            let whole = text::name(&function.file, part.limits.name);
            format!("<span title=\"{whole}\">{}:{line}</span>", text::name(file, part.limits.name))
        }
    };
    let per_call = calls.cumulative_seconds / calls.primitive_calls as f64;
    [
        text::name(&function.name, part.limits.name).into(),
        kind.into(),
        place.into(),
        calls.total_calls.into(),
        calls.self_seconds.into(),
        (all > 0.0).then(|| calls.self_seconds / all).into(),
        calls.cumulative_seconds.into(),
        (calls.primitive_calls > 0).then_some(per_call).into(),
    ]
}
