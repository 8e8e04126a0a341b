//! Scopes that torch's engine opens around autograd nodes. The engine does not identify the nodes,
//! so a node is identified by the op that begins first inside the scope.

use rustc_hash::FxHashMap;

use super::fragments::Names;
use crate::cycle::Event;
use mlprof_events::{ActionKind, Direction};

/// Connection of an op to another one: the sequence number and the thread of the forward op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tie {
    pub(super) sequence: u32,
    pub(super) forward_thread: u32,
}

impl Tie {
    /// Returns the tie of an op, or `None` if it has no sequence number.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let is_backward = event.direction == Direction::Backward;
        let forward_thread = if is_backward { event.forward_thread } else { 0 };
        (event.sequence != 0).then_some(Self { sequence: event.sequence, forward_thread })
    }
}

/// Ties of the engine's scopes, found while a thread's events are read in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct EngineScopes {
    /// Ties by the scope's position in the order of all tracks.
    ties: FxHashMap<u64, Tie>,
    /// For each depth, the op that ended first inside the open scope, and its tie.
    first_inside: Vec<Option<Option<Tie>>>,
}

impl EngineScopes {
    /// Begins the events of another thread.
    pub(super) fn begin_thread(&mut self) {
        self.first_inside.clear();
    }

    /// Adds the thread's next event, at this position.
    #[inline]
    pub(super) fn see(&mut self, names: &mut Names, place: u64, event: &Event) {
        let depth = usize::from(event.depth);
        // The content of a scope that crosses others is unknown.
        if event.overlaps || depth >= MOST_DEPTH || names.kind(event.action) != ActionKind::Op {
            self.first_inside.truncate(depth + 1);
            return;
        }
        let inside = self.first_inside.get(depth + 1).copied().flatten().flatten();
        self.first_inside.truncate(depth + 1);
        if let Some(tie) = inside
            && event.sequence == 0
            && names.is_of_engine(event.action)
        {
            self.ties.insert(place, tie);
        }
        if self.first_inside.len() <= depth {
            self.first_inside.resize(depth + 1, None);
        }
        // Siblings end in the order in which they began.
        let is_node = event.direction == Direction::Backward;
        self.first_inside[depth].get_or_insert(Tie::of(event).filter(|_| is_node));
    }

    /// Returns the tie of the node to which the scope belongs, if the event is such a scope.
    #[inline]
    pub(super) fn tie_of(&self, place: u64) -> Option<Tie> {
        if self.ties.is_empty() {
            return None;
        }
        self.ties.get(&place).copied()
    }
}

/// Maximum depth. Ops at greater depths are ignored.
const MOST_DEPTH: usize = u16::MAX as usize;
