//! Missing data in a report of the Advanced profiler.

use crate::ActionKind;
use crate::report::AdvancedReport;
use crate::report::advanced::CallTreeNode;
use crate::report::internals::{Missing, note_missing};
use mlprof_events::clock;

/// Returns the missing data. Functions are the purpose of this profiler; samples can replace them.
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

/// Adds notes about missing data to the report. Samples have their own notes.
pub(super) fn note(report: &mut AdvancedReport) {
    if report.samples.is_none() {
        note_missing(&of(report), &mut report.header.notes);
    }
}
