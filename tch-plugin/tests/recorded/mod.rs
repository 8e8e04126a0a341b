//! Plain values of the Tensor profiler's recordings.

#![allow(dead_code, reason = "each file of tests uses a part of it")]

use std::sync::{Arc, Mutex, PoisonError};

use mlprof_core::hook::{Direction, MemoryLabel, TensorShape};
use mlprof_core::tensor::{Cycle, TensorProfiler};
use mlprof_core::{ActionKind, Profiler, activate};

#[path = "../turn/mod.rs"]
mod turn;
pub use turn::turn;

/// An op or another scope.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    pub name: &'static str,
    pub kind: ActionKind,
    /// Start in nanoseconds since the beginning of the cycle.
    pub start: i64,
    pub nanoseconds: u64,
    /// The operating system's thread id.
    pub thread: u64,
    pub sequence: u32,
    pub forward_thread: u32,
    pub is_backward: bool,
    pub is_unfinished: bool,
    pub depth: u16,
    pub inputs: Option<Vec<TensorShape>>,
}

impl Op {
    pub fn end(&self) -> i64 {
        self.start + self.nanoseconds.cast_signed()
    }
}

/// An allocation or a free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    pub time: i64,
    pub thread: u64,
    pub address: u64,
    pub bytes: i64,
    pub total: u64,
}

/// One recorded cycle.
#[derive(Debug, Default, Clone)]
pub struct Recorded {
    /// Ops in the order of their starts.
    pub ops: Vec<Op>,
    pub memory: Vec<Change>,
    pub labels: Vec<MemoryLabel>,
    pub dropped: u64,
}

impl Recorded {
    fn of(cycle: &Cycle) -> Self {
        let mut recorded = Self {
            labels: cycle.memory_labels.clone(),
            dropped: cycle.dropped.events,
            ..Self::default()
        };
        for track in cycle.tracks() {
            recorded.ops.extend(track.events().map(|event| Op {
                name: event.action.name(),
                kind: event.action.kind(),
                start: cycle.nanoseconds_since_start(event.start),
                nanoseconds: cycle.nanoseconds_between(event.start, event.end),
                thread: track.thread,
                sequence: event.sequence,
                forward_thread: event.forward_thread,
                is_backward: event.direction == Direction::Backward,
                is_unfinished: event.is_unfinished,
                depth: event.depth,
                inputs: event.shapes.inputs(),
            }));
            recorded.memory.extend(track.memory_events().map(|event| Change {
                time: cycle.nanoseconds_since_start(event.time),
                thread: track.thread,
                address: event.change.address,
                bytes: event.change.bytes,
                total: event.change.total_allocated,
            }));
        }
        recorded.ops.sort_by_key(|op| (op.start, op.depth));
        recorded
    }

    /// Returns the ops with this name.
    pub fn of_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Op> {
        self.ops.iter().filter(move |op| op.name == name)
    }

    /// Returns only the ops, in the order of their starts.
    pub fn only_ops(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter().filter(|op| op.kind == ActionKind::Op)
    }
}

/// Returns a profiler and the list to which it appends its cycles.
pub fn collecting(profiler: TensorProfiler) -> (Arc<TensorProfiler>, Arc<Mutex<Vec<Recorded>>>) {
    let cycles = Arc::new(Mutex::new(Vec::new()));
    let target = cycles.clone();
    let profiler = profiler.on_trace_ready(move |cycle| {
        target.lock().unwrap_or_else(PoisonError::into_inner).push(Recorded::of(cycle));
    });
    (Arc::new(profiler), cycles)
}

/// Runs `work` under a profiler that records all of it.
pub fn record(profiler: TensorProfiler, work: impl FnOnce()) -> Recorded {
    let (profiler, cycles) = collecting(profiler.without_schedule());
    let active = activate(profiler.clone());
    work();
    profiler.teardown(None);
    drop(active);
    let mut cycles = cycles.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(cycles.len(), 1);
    cycles.remove(0)
}
