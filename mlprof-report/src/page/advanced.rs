//! HTML of an Advanced report: an icicle chart, one table of all functions, and tables per action.

use std::fmt::Write;

use rustc_hash::FxHashMap;

use super::limits::largest;
use super::simple::{write_device_times, write_regions};
use super::{Part, samples, text};
use crate::advanced::{ActionProfile, AdvancedReport, CallStatistics, FunctionKey};
use crate::label::word;
use crate::table::{Cell, Table, Unit, count, seconds, share, table, words};
use mlprof_events::ActionKind;

/// Maximum number of actions with their own table. JSON contains all actions.
const ACTIONS: usize = 24;

/// Writes all parts of an Advanced report.
pub(super) fn write(html: &mut String, report: &AdvancedReport, part: &Part) {
    if report.threads.iter().any(|thread| !thread.roots.is_empty()) {
        part.heading(html, "calls", "Calls");
        part.icicle(html, "calls", "Call tree: the width is time, callees are below their caller");
        write_functions(html, report, part);
    }
    write_profiles(html, report, part);
    if let Some(samples) = &report.samples {
        samples::write(html, samples, part);
    }
    let devices = report.actions.iter().map(|it| (it.label(), it.device.as_ref()));
    write_device_times(html, devices, part);
    write_regions(html, &report.device_regions, part);
}

/// Writes a table of the functions, summed over all threads and actions. A function appears at most
/// once on each path of a tree, so its times add up.
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
    let rows = rows.into_iter().map(|((function, kind), calls)| (*function, word(kind), *calls));
    functions_table("Functions of all threads", rows, all, part).sorted_by("Self").write_folding(
        html,
        part.limits,
        &[("Self", all), ("Total", all)],
    );
}

fn write_profiles(html: &mut String, report: &AdvancedReport, part: &Part) {
    let rows = (part.limits.rows / 20).max(1);
    // An action without nested calls already has a row in the table of all functions.
    let profiles: Vec<_> =
        report.actions.iter().filter(|profile| profile.functions.len() > 1).collect();
    if profiles.is_empty() {
        return;
    }
    part.heading(html, "profiles", "Actions, each with its callees");
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
    let caption = match profile.functions.len() {
        all if all > rows => format!("{rows} of {all} functions with the longest totals"),
        _ => "Functions called in the action".to_owned(),
    };
    let functions = profile.functions.iter().take(rows);
    let functions = functions.map(|it| (&it.function, String::new(), it.calls));
    functions_table(&caption, functions, profile.total_seconds, part)
        .sorted_by("Total")
        .write(html, part.limits);
}

/// Returns a table of functions with their kinds and calls. `all` is the sum of the self times in
/// seconds.
fn functions_table<'rows>(
    caption: &str,
    functions: impl Iterator<Item = (&'rows FunctionKey, String, CallStatistics)>,
    all: f64,
    part: &Part,
) -> Table {
    table!(caption, functions, |(function, kind, calls)| {
        let per_call = calls.cumulative_seconds / calls.primitive_calls as f64;
        words("Function", "Name of the function, span or action").key() => function.name.as_str(),
        words("Kind", "Kind of the function").key() => kind,
        words("Place", "File and line").key() => Cell::Markup(place(function, part)),
        count("Calls", "Number of calls (ncalls)").sum() => calls.total_calls,
        seconds("Self", "Time in the function itself (tottime)").sum().bar() => calls.self_seconds,
        share("Self share", "Self time as a share of all self times").sum() =>
            (all > 0.0).then(|| calls.self_seconds / all),
        seconds("Total", "Time including callees (cumtime)").sum().bar() => calls.cumulative_seconds,
        seconds("Per call", "Total divided by the non-recursive calls") =>
            (calls.primitive_calls > 0).then_some(per_call),
    })
}

fn place(function: &FunctionKey, part: &Part) -> String {
    if function.line == 0 {
        return String::new();
    }
    let file = function.file.rsplit(['/', '\\']).next().unwrap_or_default();
    let whole = text::name(&function.file, part.limits.name);
    let file = text::name(file, part.limits.name);
    format!("<span title=\"{whole}\">{file}:{}</span>", function.line)
}
