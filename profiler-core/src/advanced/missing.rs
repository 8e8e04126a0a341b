//! What is missing in a report of the Advanced profiler.

use crate::ActionKind;
use crate::report::AdvancedReport;
use crate::report::advanced::CallTreeNode;
use crate::report::internals::{Missing, note_missing};
use mlprof_events::clock;

/// Functions are what this profiler is chosen for; samples stand in for them.
pub(super) fn of(report: &AdvancedReport) -> Vec<Missing> {
    if let Some(samples) = &report.samples {
        return samples.missing().into_iter().collect();
    }
    if !clock::IS_THERE {
        return vec![Missing::Clock];
    }
    let mut todo: Vec<&CallTreeNode> =
        report.threads.iter().flat_map(|thread| &thread.roots).collect();
    if todo.is_empty() {
        return vec![Missing::Everything];
    }
    while let Some(node) = todo.pop() {
        if matches!(node.kind, ActionKind::Function | ActionKind::Span | ActionKind::Op) {
            return Vec::new();
        }
        todo.extend(&node.children);
    }
    vec![Missing::Functions]
}

/// Says in the report's notes what is missing. Samples have notes of their own.
pub(super) fn note(report: &mut AdvancedReport) {
    if report.samples.is_none() {
        note_missing(&of(report), &mut report.header.notes);
    }
}
