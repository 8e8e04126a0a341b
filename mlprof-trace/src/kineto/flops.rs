//! The operations of ops, as tables count them.

use rustc_hash::FxHashMap;

use crate::cycle::Event;
use mlprof_events::{Action, ShapeList};

/// What a call of each op with each list of shapes computes.
#[derive(Debug, Default)]
pub(super) struct Flops {
    known: FxHashMap<(Action, ShapeList), Option<u64>>,
}

impl Flops {
    /// The floating-point operations of an op; `None` if they are not known.
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
