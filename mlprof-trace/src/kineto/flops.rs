//! FLOP counts of ops, as in tables.

use rustc_hash::FxHashMap;

use crate::cycle::Event;
use mlprof_events::{Action, ShapeList};

/// Cache of the FLOP count of each op with each list of shapes.
#[derive(Debug, Default)]
pub(super) struct Flops {
    known: FxHashMap<(Action, ShapeList), Option<u64>>,
}

impl Flops {
    /// Returns the floating-point operations of an op, or `None` if they are unknown.
    pub(super) fn of(&mut self, event: &Event) -> Option<u64> {
        if event.shapes == ShapeList::NONE {
            return None;
        }
        let shapes = event.shapes.without_details();
        *self.known.entry((event.action, shapes)).or_insert_with(|| {
            shapes.inputs().and_then(|inputs| crate::flops::flops(event.action.name(), &inputs))
        })
    }
}
