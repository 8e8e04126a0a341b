//! Allocations and deallocations of all threads in chronological order, with their enclosing
//! scopes.

use std::collections::BTreeSet;

use super::{StepSpan, microseconds};
use crate::cycle::{Cycle, Event, Track};
use crate::nest::Nest;
use crate::walk::{Recorded as Item, backwards};
use mlprof_events::OrderExt;
use mlprof_events::{Action, ActionKind, Direction, MemoryChange, MemoryDevice, Phase};

/// Suffixes of the names of actions that fetch or move batches.
const INPUT: [&str; 6] = [
    "dataloader_next",
    "val_next",
    "test_next",
    "predict_next",
    "batch_to_device",
    "transfer_batch_to_device",
];

/// Scopes around an allocation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around {
    /// Innermost op.
    pub(super) op: Option<Action>,
    /// End of the outermost op.
    pub(super) op_end: Option<i64>,
    /// Innermost module, action, function or span.
    pub(super) inside: Option<Action>,
    pub(super) phase: Option<Phase>,
    pub(super) is_input: bool,
}

/// An allocation or a deallocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) time: i64,
    pub(super) change: MemoryChange,
    pub(super) around: Around,
}

/// Time span of one phase, possibly on several threads, until another phase begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PhaseRun {
    pub(super) phase: Phase,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Memory events of a cycle.
pub(super) struct Recorded {
    /// Changes in chronological order.
    pub(super) changes: Vec<Change>,
    /// Phases, sorted by start.
    pub(super) phases: Vec<PhaseRun>,
    pub(super) steps: Vec<StepSpan>,
}

impl Around {
    /// Returns the scopes inside `action`.
    fn inside(self, action: Action, direction: Direction, end: Option<i64>) -> Self {
        let kind = action.kind();
        let told = Phase::of_action(action, direction);
        let is_op = matches!(kind, ActionKind::Op | ActionKind::Launch);
        let fetches = !is_op && INPUT.iter().any(|name| action.name().ends_with(name));
        Self {
            op: if is_op { Some(action) } else { self.op },
            op_end: self.op_end.or(end.filter(|_| is_op)),
            inside: if is_op || kind == ActionKind::Step { self.inside } else { Some(action) },
            phase: told.or(self.phase),
            // A forward pass inside a fetch does not count as fetching.
            is_input: fetches || (self.is_input && told.is_none()),
        }
    }
}

impl Recorded {
    pub(super) fn of(cycle: &Cycle) -> Self {
        let mut recorded = Self { changes: Vec::new(), phases: Vec::new(), steps: Vec::new() };
        for track in cycle.tracks() {
            let first = recorded.changes.len();
            recorded.track(cycle, track);
            recorded.changes[first..].reverse();
        }
        recorded.changes.order_by_key(|change| change.time);
        recorded.steps.order_by_key(|step| step.step);
        recorded.phases = merged(recorded.phases);
        recorded
    }

    fn track(&mut self, cycle: &Cycle, track: &Track) {
        let mut open: Nest<Around> = Nest::new();
        for item in backwards(track) {
            match item {
                Item::Event(event) => self.event(cycle, &mut open, &event),
                Item::Memory(event) => {
                    let time = cycle.nanoseconds_since_start(event.time);
                    let around = open.at(time).copied().unwrap_or_default();
                    self.changes.push(Change { time, change: event.change, around });
                }
            }
        }
    }

    fn event(&mut self, cycle: &Cycle, open: &mut Nest<Around>, event: &Event) {
        let start = cycle.nanoseconds_since_start(event.start);
        let end = cycle.nanoseconds_since_start(event.end).max(start);
        if event.action.kind() == ActionKind::Step {
            let (start_us, end_us) = (microseconds(start), microseconds(end));
            self.steps.push(StepSpan { step: event.sequence.into(), start_us, end_us });
        }
        if event.overlaps || !open.fits(start, end) {
            return;
        }
        let parent = open.parent(start, end).copied();
        let outside = parent.unwrap_or_else(|| called_from(cycle, event));
        let around = outside.inside(event.action, event.direction, Some(end));
        if let Some(phase) = around.phase.filter(|phase| outside.phase != Some(*phase)) {
            self.phases.push(PhaseRun { phase, start, end });
        }
        open.push(start, end, around);
    }

    pub(super) fn devices(&self) -> BTreeSet<MemoryDevice> {
        self.changes.iter().map(|change| change.change.device).collect()
    }

    /// Returns the run of `phase` at `time`.
    pub(super) fn run_at(&self, phase: Phase, time: i64) -> Option<PhaseRun> {
        let begun = self.phases.partition_point(|run| run.start <= time);
        self.phases[..begun].iter().rfind(|run| run.phase == phase).copied()
    }

    /// Returns the next start of `phase`.
    pub(super) fn next_start(&self, phase: Phase, time: i64) -> Option<i64> {
        let begun = self.phases.partition_point(|run| run.start < time);
        self.phases[begun..].iter().find(|run| run.phase == phase).map(|run| run.start)
    }
}

/// Returns the scopes at the call site of an event, if that was on another thread.
fn called_from(cycle: &Cycle, event: &Event) -> Around {
    let context = event.context.and_then(|context| cycle.context(context));
    let actions = context.map_or(&[][..], |context| context.actions);
    actions
        .iter()
        .fold(Around::default(), |around, action| around.inside(*action, Direction::Forward, None))
}

/// Merges consecutive runs of the same phase.
fn merged(mut runs: Vec<PhaseRun>) -> Vec<PhaseRun> {
    runs.order_by_key(|run| run.start);
    let mut merged: Vec<PhaseRun> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if last.phase == run.phase => last.end = last.end.max(run.end),
            _ => merged.push(run),
        }
    }
    merged
}
