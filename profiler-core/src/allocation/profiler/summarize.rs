//! Converts recorded data to the values of a report.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Process;
use super::table::{MemorySnapshot, MemoryTable, Row};
use crate::allocation::tracker::{PathAlive, Picture};
use crate::allocation::{FLUSH_BYTES, LARGE_COPY};
use crate::recorder::header::{header, open_actions};
use crate::recorder::overhead::seconds_per_scope;
use crate::recorder::{Collected, Part, Recorder};
use crate::report::memory::{ActionMemory, MemoryTree, PathMemory, ProcessMemory, ThreadMemory};
use crate::report::{MemoryReport, MemoryReportParts};
use crate::{Action, ActionKind, NeverStarted, Profiler, RunContext, Stage};
use mlprof_events::OrderExt;

/// Rows by name. Two actions with the same name, for example a function and a span, share one row.
type Rows = HashMap<(Option<Stage>, &'static str), (Row, ActionKind)>;

pub(super) fn summarize(
    collected: &Collected<MemorySnapshot>,
    run: &RunContext,
    picture: &Picture,
) -> MemoryReport {
    let all = rows(&collected.parts);
    let scopes = all.values().map(|(row, _)| row.calls).sum();
    let seconds_per_scope = seconds_per_scope(0, Calibration::new);
    let mut header = header(collected, run, scopes, seconds_per_scope);
    if picture.dropped > 0 {
        header.notes.push(format!(
            "{} blocks are in no tree: more blocks were alive at once than the profiler can store",
            picture.dropped
        ));
    }
    if picture.overflowed > 0 {
        header.notes.push(format!(
            "{} calls found no room for their own call path; their allocations count for the \
             enclosing path",
            picture.overflowed
        ));
    }
    let threads = collected.by_thread_name().into_iter().map(|group| ThreadMemory {
        thread: group.thread.to_owned(),
        threads: group.threads,
        actions: statistics(rows(group.parts)),
    });
    MemoryReportParts {
        header,
        process: ProcessMemory::default(),
        actions: statistics(all),
        threads: threads.filter(|thread| !thread.actions.is_empty()).collect(),
        peak: tree(&picture.at_peak, picture.least_bytes, Some(picture.copied_bytes)),
        alive: tree(&picture.alive, picture.least_bytes, None),
        copies: tree(&picture.copies, LARGE_COPY as u64, None),
        open: open_actions(collected),
        findings: Vec::new(),
    }
    .build()
}

pub(super) fn process(start: &Process, end: &Process) -> ProcessMemory {
    ProcessMemory {
        total: end.tallies.since(&start.tallies),
        live_bytes: end.live_bytes,
        live_at_start_bytes: start.live_bytes,
        peak_bytes: end.peak_bytes.max(end.live_bytes),
        uncertainty_bytes_per_thread: FLUSH_BYTES,
    }
}

fn rows<'parts>(parts: impl IntoIterator<Item = &'parts Part<MemorySnapshot>>) -> Rows {
    let mut rows = Rows::new();
    for part in parts {
        for (action, row) in &part.snapshot {
            let new = || (Row::default(), action.kind());
            // The resumption of a call does not count as a call.
            let calls = if action.resumed().is_some() { 0 } else { row.calls };
            let row = Row { calls, ..*row };
            rows.entry((part.sub_stage, action.name())).or_insert_with(new).0.merge(&row);
        }
    }
    rows
}

/// Returns the rows, largest number of allocated bytes first.
fn statistics(rows: Rows) -> Vec<ActionMemory> {
    let statistics = rows.into_iter().map(|((sub_stage, name), (row, kind))| ActionMemory {
        action: name.to_owned(),
        kind,
        sub_stage,
        calls: row.calls,
        total: row.total,
        own: row.own,
        peak_bytes: row.peak_bytes,
    });
    let mut statistics: Vec<_> = statistics.collect();
    statistics.order_by(|one, other| {
        let order = |row: &ActionMemory| Reverse(row.total.allocated_bytes);
        order(one).cmp(&order(other)).then_with(|| one.action.cmp(&other.action))
    });
    statistics
}

/// Merges paths with a common beginning into a tree.
fn tree(paths: &[PathAlive], least: u64, process: Option<i64>) -> MemoryTree {
    let mut root = PathMemory::default();
    for alive in paths {
        let mut place = &mut root;
        add_total(place, alive);
        for action in &alive.actions {
            place = inside(place, action.resumed().unwrap_or(*action));
            add_total(place, alive);
        }
        place.own_bytes += alive.bytes;
        place.own_blocks += alive.blocks;
    }
    sort(&mut root);
    MemoryTree { process_bytes: process, least_block_bytes: least, blocks: root }
}

fn add_total(place: &mut PathMemory, alive: &PathAlive) {
    place.bytes += alive.bytes;
    place.blocks += alive.blocks;
}

fn inside(place: &mut PathMemory, action: Action) -> &mut PathMemory {
    let name = action.name();
    let index = place.inside.iter().position(|inner| inner.action == name);
    let index = index.unwrap_or_else(|| {
        place.inside.push(PathMemory { action: name.to_owned(), ..PathMemory::default() });
        place.inside.len() - 1
    });
    &mut place.inside[index]
}

fn sort(place: &mut PathMemory) {
    place.inside.order_by(|one, other| {
        other.bytes.cmp(&one.bytes).then_with(|| one.action.cmp(&other.action))
    });
    place.inside.iter_mut().for_each(sort);
}

/// Profiler with the same table, to measure the cost of a scope.
struct Calibration(Recorder<MemoryTable>);

impl Calibration {
    fn new() -> Self {
        Self(Recorder::aside())
    }
}

impl Profiler for Calibration {
    fn start(&self, action: Action) {
        self.0.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.0.stop(action)
    }
}
