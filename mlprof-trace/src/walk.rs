//! Backward iteration over a thread's record.

use std::iter::Peekable;

use crate::cycle::{Event, MemoryEvent, Track};

/// An item that a thread recorded.
pub(crate) enum Recorded {
    /// An op, action or other scope, returned at its end.
    Event(Event),
    /// Allocated or freed memory.
    Memory(MemoryEvent),
}

/// Returns the events and memory changes of a track from the last to the first, so that an
/// enclosing scope precedes its content.
pub(crate) fn backwards(track: &Track) -> impl Iterator<Item = Recorded> + '_ {
    Backwards {
        events: track.events().rev().peekable(),
        memory: track.memory_events().rev().peekable(),
    }
}

struct Backwards<E: Iterator<Item = Event>, M: Iterator<Item = MemoryEvent>> {
    events: Peekable<E>,
    memory: Peekable<M>,
}

impl<E: Iterator<Item = Event>, M: Iterator<Item = MemoryEvent>> Iterator for Backwards<E, M> {
    type Item = Recorded;

    fn next(&mut self) -> Option<Recorded> {
        let is_memory = match (self.events.peek(), self.memory.peek()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(event), Some(memory)) => memory.time > event.end,
        };
        if is_memory {
            self.memory.next().map(Recorded::Memory)
        } else {
            self.events.next().map(Recorded::Event)
        }
    }
}
