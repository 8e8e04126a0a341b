//! Events of a recording, in decoded and in stored form.

use mlprof_events::{
    Action, ActionKind, Context, Direction, MemoryChange, MemoryDevice, OpStart, ShapeList,
    Timestamp,
};

/// An op, action, function or other scope on a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Action of the scope.
    pub action: Action,
    /// Start of the scope.
    pub start: Timestamp,
    /// End of the scope.
    pub end: Timestamp,
    /// Shapes of the inputs, if they were recorded.
    pub shapes: ShapeList,
    /// Number that connects a backward op to its forward op. For a launch it is the correlation
    /// number of the device event. For an action it is its index among the collectives of the run
    /// plus 1. 0 if there is none.
    pub sequence: u32,
    /// Thread on which the forward op ran, as the framework counts threads. For a forward op it is
    /// its own thread. 0 if unknown.
    pub forward_thread: u32,
    /// Actions that were open at the op's call site, if that was on another thread.
    pub context: Option<Context>,
    /// Number of scopes that were open around it on the thread. 65,535 stands for that number or
    /// more.
    pub depth: u16,
    /// Direction of the op: forward or backward.
    pub direction: Direction,
    /// Set if the scope was still open when the recording ended, which is then its `end`.
    pub is_unfinished: bool,
    /// Set if the event does not nest with the events around it. A scope opened inside it, or the
    /// step in which it was opened, ended in the wrong order. Traces show it on a separate track,
    /// and it is never a parent.
    pub overlaps: bool,
}

/// Number of words of a stored [`Event`].
pub const EVENT_WORDS: usize = 5;
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

/// An [`Event`] that has not ended, in its stored form.
#[derive(Debug, Clone, Copy)]
pub struct OpenEvent {
    /// Start in ticks.
    pub started: u64,
    /// Action and shapes.
    name: u64,
    /// Sequence and forward thread.
    tie: u64,
    /// Context, depth and flags.
    place: u64,
}

impl OpenEvent {
    /// Creates an op that begins inside `depth` scopes. The caller must set its start time.
    #[inline(always)]
    pub fn new(op: &OpStart<'_>, shapes: ShapeList, depth: usize) -> Self {
        let depth = depth.min(usize::from(u16::MAX)) as u32;
        let backward = if op.direction == Direction::Backward { BACKWARD } else { 0 };
        Self {
            started: 0,
            name: join(op.action.number(), shapes.number()),
            tie: join(op.sequence, op.forward_thread),
            place: join(op.context.map_or(0, Context::number), depth | backward),
        }
    }

    /// Returns `true` if it is a call of `action`.
    #[inline(always)]
    pub fn is_of(&self, action: Action) -> bool {
        self.name as u32 == action.number()
    }

    /// Returns the action.
    pub fn action(&self) -> Option<Action> {
        Action::from_number(self.name as u32)
    }

    /// Marks it as an operation of all ranks, with this index among the collectives of the run.
    pub fn set_collective(&mut self, sequence: u64) {
        let (_, forward_thread) = split(self.tie);
        self.tie = join(Event::of_collective(sequence), forward_thread);
    }

    /// Marks it as not nesting with other events.
    pub fn set_overlaps(&mut self) {
        self.place |= join(0, OVERLAPS);
    }

    /// Returns `true` if it is a step.
    pub fn is_step(&self) -> bool {
        self.action().is_some_and(|action| action.kind() == ActionKind::Step)
    }

    /// Decrements the number of scopes around it.
    pub fn move_out(&mut self) {
        let (context, tail) = split(self.place);
        // The depth is in the lower bits. The maximum stays unchanged, because it stands for that
        // depth or more.
        let depth = tail as u16;
        let is_movable = depth != 0 && depth != u16::MAX;
        self.place = join(context, tail - u32::from(is_movable));
    }

    /// Marks it as unfinished, because the recording ends first.
    pub fn set_unfinished(&mut self) {
        self.place |= join(0, UNFINISHED);
    }

    /// Returns the stored form of the event, which ends at `end` in ticks.
    #[inline(always)]
    pub fn ended(&self, end: u64) -> [u64; EVENT_WORDS] {
        [self.started, end, self.name, self.tie, self.place]
    }
}

impl Event {
    /// Returns the stored form of a collective's index.
    fn of_collective(sequence: u64) -> u32 {
        u32::try_from(sequence).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// Returns the index among the collectives of the run, if it [is
    /// one](mlprof_events::Observation::Collective). *Cost*: a look-up of the action.
    #[doc(hidden)]
    pub fn collective(&self) -> Option<u32> {
        let can_be = self.action.kind().is_action() && self.action.kind() != ActionKind::Step;
        self.sequence.checked_sub(1).filter(|_| can_be)
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
    /// Time of the change.
    pub time: Timestamp,
    /// The change.
    pub change: MemoryChange,
}

/// Number of words of a stored [`MemoryEvent`].
pub const MEMORY_WORDS: usize = 6;

impl MemoryEvent {
    /// Creates an event for a change at this time.
    #[doc(hidden)]
    #[inline]
    pub fn new(time: Timestamp, change: MemoryChange) -> Self {
        Self { time, change }
    }

    /// Returns the stored form.
    #[doc(hidden)]
    #[inline]
    pub fn to_words(self) -> [u64; MEMORY_WORDS] {
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
        let op = OpStart {
            sequence: 7,
            forward_thread: u32::MAX,
            context: Context::from_number(u32::MAX),
            direction: Direction::Backward,
            ..OpStart::new(Action::op("aten::mm"))
        };
        let mut open = OpenEvent::new(&op, ShapeList::from_number(u32::MAX), 1 << 20);
        open.started = u64::MAX - 9;
        open.set_unfinished();
        let event = Event {
            action: op.action,
            start: Timestamp::from_ticks(u64::MAX - 9),
            end: Timestamp::from_ticks(u64::MAX),
            shapes: ShapeList::from_number(u32::MAX),
            sequence: 7,
            forward_thread: u32::MAX,
            context: op.context,
            depth: u16::MAX,
            direction: Direction::Backward,
            is_unfinished: true,
            overlaps: false,
        };
        assert_eq!(Event::from_words(open.ended(u64::MAX)), Some(event));
        let mut open = OpenEvent::new(&OpStart::new(op.action), ShapeList::NONE, 3);
        open.set_overlaps();
        let event = Event::from_words(open.ended(1)).expect("an event");
        assert_eq!((event.context, event.direction, event.depth), (None, Direction::Forward, 3));
        assert!(event.overlaps && !event.is_unfinished && open.is_of(op.action));
        let depth = |open: &OpenEvent| Event::from_words(open.ended(1)).expect("an event").depth;
        open.move_out();
        assert_eq!(depth(&open), 2);
        (0..3).for_each(|_| open.move_out());
        assert_eq!(
            (depth(&open), Event::from_words(open.ended(1)).map(|it| it.overlaps)),
            (0, Some(true))
        );
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
