//! The scopes that torch's engine has around nodes of autograd. It does not say which nodes they are of:
//! that is told by the op that begins first inside of each.

use rustc_hash::FxHashMap;

use super::fragments::Names;
use crate::cycle::Event;
use mlprof_events::{ActionKind, Direction};

/// What ties an op to another one: the sequence number and the thread of the forward op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tie {
    pub(super) sequence: u32,
    pub(super) forward_thread: u32,
}

impl Tie {
    /// Of an op that says it; `None` if it does not.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let is_backward = event.direction == Direction::Backward;
        let forward_thread = if is_backward { event.forward_thread } else { 0 };
        (event.sequence != 0).then_some(Self { sequence: event.sequence, forward_thread })
    }
}

/// The ties of these scopes, found while a thread's events are read in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct EngineScopes {
    /// By the scope's place in the order of all tracks.
    ties: FxHashMap<u64, Tie>,
    /// By depth: the op that ended first there, inside of what is open, and its tie.
    first_inside: Vec<Option<Option<Tie>>>,
}

impl EngineScopes {
    /// Another thread's events come from here on.
    pub(super) fn begin_thread(&mut self) {
        self.first_inside.clear();
    }

    /// The thread's next event, at this place.
    #[inline]
    pub(super) fn see(&mut self, names: &mut Names, place: u64, event: &Event) {
        let depth = usize::from(event.depth);
        // What is inside of something that crosses others is not known.
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

    /// The tie of the node that an event is the scope of, if it is one.
    #[inline]
    pub(super) fn tie_of(&self, place: u64) -> Option<Tie> {
        if self.ties.is_empty() {
            return None;
        }
        self.ties.get(&place).copied()
    }
}

/// Ops that are further inside are looked at no more.
const MOST_DEPTH: usize = u16::MAX as usize;
