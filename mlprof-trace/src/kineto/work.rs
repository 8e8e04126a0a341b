//! FLOPs and bytes of ops, as in tables.

use rustc_hash::FxHashMap;

use crate::cycle::Event;
use mlprof_events::work::{bytes, flops};
use mlprof_events::{Action, ShapeList};

/// Work of one call, as far as it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    pub(super) flops: Option<u64>,
    /// Bytes that are read and written at least.
    pub(super) bytes: Option<u64>,
}

/// Cache of the work of each op with each list of shapes.
#[derive(Debug, Default)]
pub(super) struct WorkCache {
    known: FxHashMap<(Action, ShapeList), Work>,
}

impl WorkCache {
    /// Returns the work of an op.
    pub(super) fn of(&mut self, event: &Event) -> Work {
        if event.shapes == ShapeList::NONE {
            return Work::default();
        }
        let shapes = event.shapes.without_details();
        *self.known.entry((event.action, shapes)).or_insert_with(|| {
            let inputs = shapes.inputs().unwrap_or_default();
            let name = event.action.name();
            Work { flops: flops(name, &inputs), bytes: bytes(name, &inputs) }
        })
    }
}
