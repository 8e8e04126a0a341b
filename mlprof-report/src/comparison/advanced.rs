//! Comparison rows of an Advanced report.

use std::collections::BTreeMap;

use super::Subject;
use super::rows::{Rows, share};
use super::simple::{append_device_times, append_regions, append_run};
use super::spread::Sample;
use crate::AdvancedReport;
use mlprof_events::ActionKind;

pub(super) fn append(rows: &mut Rows, report: &AdvancedReport) {
    let wall = report.header.wall_seconds;
    append_run(rows, &report.header);
    for profile in &report.actions {
        let mean = profile.total_seconds / profile.calls.max(1) as f64;
        let sample = Sample::alone(mean, profile.calls, share(profile.total_seconds, wall));
        rows.add(Subject::Actions, profile.label(), sample);
    }
    append_functions(rows, report, wall);
    let devices = report.actions.iter().map(|profile| (profile.label(), profile.device));
    append_device_times(rows, devices, wall);
    append_regions(rows, &report.device_regions, wall);
}

/// Appends a row per function with its self time, which is additive, over all threads. A function
/// keeps its row when it moves to another line. Functions with the same name in one file are
/// numbered by line order.
fn append_functions(rows: &mut Rows, report: &AdvancedReport, wall: f64) {
    type Lines = BTreeMap<u32, (u64, f64)>;
    let mut functions: BTreeMap<(&str, &str), Lines> = BTreeMap::new();
    for (_, node) in report.threads.iter().flat_map(|thread| thread.nodes()) {
        if node.kind == ActionKind::Action {
            continue;
        }
        let key = (node.function.name.as_str(), node.function.file.as_str());
        let sum = functions.entry(key).or_default().entry(node.function.line).or_default();
        sum.0 += node.calls.total_calls;
        sum.1 += node.calls.self_seconds;
    }
    for ((name, file), lines) in functions {
        for (number, (calls, seconds)) in (1..).zip(lines.into_values()) {
            let place = match (file, number) {
                ("~", 1) => String::new(),
                ("~", number) => format!(" ({number})"),
                (file, 1) => format!(" ({file})"),
                (file, number) => format!(" ({file}, {number})"),
            };
            let mean = seconds / calls.max(1) as f64;
            let sample = Sample::alone(mean, calls, share(seconds, wall));
            rows.add(Subject::Functions, format!("{name}{place}"), sample);
        }
    }
}
