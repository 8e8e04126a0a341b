//! The events of a recording, as they are read and as they are stored.

use crate::Action;
use crate::hook::{Context, Direction, MemoryChange, MemoryDevice, ShapeList, Timestamp};

/// An op, action, function or other scope that a thread ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// What ran.
    pub action: Action,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Its inputs, if they were recorded.
    pub shapes: ShapeList,
    /// Ties a backward op to its forward op; of a launch, the correlation of the device event. 0:
    /// none.
    pub sequence: u32,
    /// The thread that the forward op ran on, as the framework counts its threads (of a forward op:
    /// its own thread). 0: not known.
    pub forward_thread: u32,
    /// What was open where the op was called, if that was another thread.
    pub context: Option<Context>,
    /// How many scopes of the thread were open around it; 65,535 stands for that or more.
    pub depth: u16,
    /// Forward or backward.
    pub direction: Direction,
    /// It was still open when the recording ended; `end` is that moment.
    pub is_unfinished: bool,
    /// It does not nest with the events around it: a scope that was opened inside it, or the step
    /// that it was opened in, ended at another time than brackets would. Traces put it on a track
    /// of its own, and it is nobody's parent.
    pub overlaps: bool,
}

/// How many words an [`Event`] is stored in.
pub(crate) const EVENT_WORDS: usize = 5;
const BACKWARD: u32 = 1 << 16;
const UNFINISHED: u32 = 1 << 17;
const OVERLAPS: u32 = 1 << 18;

#[inline(always)]
fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | (u64::from(high) << 32)
}

fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

impl Event {
    #[inline(always)]
    pub(crate) fn to_words(self) -> [u64; EVENT_WORDS] {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let tail = u32::from(self.depth)
            | flag(self.direction == Direction::Backward, BACKWARD)
            | flag(self.is_unfinished, UNFINISHED)
            | flag(self.overlaps, OVERLAPS);
        [
            self.start.ticks(),
            self.end.ticks(),
            join(self.action.number(), self.shapes.number()),
            join(self.sequence, self.forward_thread),
            join(self.context.map_or(0, Context::number), tail),
        ]
    }

    pub(crate) fn from_words(words: [u64; EVENT_WORDS]) -> Option<Self> {
        let (action, shapes) = split(words[2]);
        let (sequence, forward_thread) = split(words[3]);
        let (context, tail) = split(words[4]);
        let is_backward = tail & BACKWARD != 0;
        Some(Self {
            action: Action::from_number(action)?,
            start: Timestamp::from_ticks(words[0]),
            end: Timestamp::from_ticks(words[1]),
            shapes: ShapeList::from_number(shapes),
            sequence,
            forward_thread,
            context: Context::from_number(context),
            depth: tail as u16,
            direction: if is_backward { Direction::Backward } else { Direction::Forward },
            is_unfinished: tail & UNFINISHED != 0,
            overlaps: tail & OVERLAPS != 0,
        })
    }
}

/// Memory that a thread allocated or freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEvent {
    /// When.
    pub time: Timestamp,
    /// What.
    pub change: MemoryChange,
}

/// How many words a [`MemoryEvent`] is stored in.
pub(crate) const MEMORY_WORDS: usize = 6;

impl MemoryEvent {
    pub(crate) fn to_words(self) -> [u64; MEMORY_WORDS] {
        let change = self.change;
        let device = match change.device {
            MemoryDevice::Cpu => 0,
            MemoryDevice::Accelerator(number) => u64::from(number) + 1,
        };
        [
            self.time.ticks(),
            change.address,
            change.bytes.cast_unsigned(),
            change.total_allocated,
            change.total_reserved,
            device,
        ]
    }

    pub(crate) fn from_words(words: [u64; MEMORY_WORDS]) -> Self {
        let device = match words[5] {
            0 => MemoryDevice::Cpu,
            number => MemoryDevice::Accelerator((number - 1) as u16),
        };
        Self {
            time: Timestamp::from_ticks(words[0]),
            change: MemoryChange {
                address: words[1],
                bytes: words[2].cast_signed(),
                total_allocated: words[3],
                total_reserved: words[4],
                device,
            },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_as_they_were_stored() {
        let event = Event {
            action: Action::op("aten::mm"),
            start: Timestamp::from_ticks(u64::MAX - 9),
            end: Timestamp::from_ticks(u64::MAX),
            shapes: ShapeList::from_number(u32::MAX),
            sequence: 7,
            forward_thread: u32::MAX,
            context: Context::from_number(u32::MAX),
            depth: u16::MAX,
            direction: Direction::Backward,
            is_unfinished: true,
            overlaps: false,
        };
        assert_eq!(Event::from_words(event.to_words()), Some(event));
        let other = Event {
            context: None,
            direction: Direction::Forward,
            is_unfinished: false,
            overlaps: true,
            depth: 0,
            ..event
        };
        assert_eq!(Event::from_words(other.to_words()), Some(other));
        assert_eq!(Event::from_words([0; EVENT_WORDS]), None);
    }

    #[test]
    fn memory_is_read_as_it_was_stored() {
        for device in [MemoryDevice::Cpu, MemoryDevice::Accelerator(u16::MAX)] {
            let change = MemoryChange {
                address: u64::MAX,
                bytes: -4096,
                total_allocated: 1,
                total_reserved: 2,
                device,
            };
            let event = MemoryEvent { time: Timestamp::from_ticks(3), change };
            assert_eq!(MemoryEvent::from_words(event.to_words()), event);
        }
    }
}
