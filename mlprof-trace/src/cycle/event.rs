//! The events of a recording, as they are read and as they are stored.

use mlprof_events::{
    Action, ActionKind, Context, Direction, MemoryChange, MemoryDevice, OpStart, ShapeList,
    Timestamp,
};

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
    /// Ties a backward op to its forward op; of a launch, the correlation of the device event; of an
    /// action, 1 more than its number among the collectives of the run. 0: none.
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

/// An [`Event`] that has not ended, in the words that it will be stored in.
#[derive(Debug, Clone, Copy)]
pub struct OpenEvent {
    /// When it began, in ticks.
    pub started: u64,
    /// Action and shapes.
    name: u64,
    /// Sequence and forward thread.
    tie: u64,
    /// Context, depth and flags.
    place: u64,
}

impl OpenEvent {
    /// An op that begins, with so many scopes around it; the time is to be set.
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

    /// Whether it is a call of `action`.
    #[inline(always)]
    pub fn is_of(&self, action: Action) -> bool {
        self.name as u32 == action.number()
    }

    /// What runs.
    pub fn action(&self) -> Option<Action> {
        Action::from_number(self.name as u32)
    }

    /// It is an operation of all ranks, the so-many-th of the run.
    pub fn set_collective(&mut self, sequence: u64) {
        let (_, forward_thread) = split(self.tie);
        self.tie = join(Event::of_collective(sequence), forward_thread);
    }

    /// From here on it nests with nothing.
    pub fn set_overlaps(&mut self) {
        self.place |= join(0, OVERLAPS);
    }

    /// Whether it is a step.
    pub fn is_step(&self) -> bool {
        self.action().is_some_and(|action| action.kind() == ActionKind::Step)
    }

    /// One scope fewer is around it.
    pub fn move_out(&mut self) {
        let (context, tail) = split(self.place);
        // The depth is in the lower bits, and stays where it is the deepest that there is.
        let depth = tail as u16;
        let is_movable = depth != 0 && depth != u16::MAX;
        self.place = join(context, tail - u32::from(is_movable));
    }

    /// The recording ends before it does.
    pub fn set_unfinished(&mut self) {
        self.place |= join(0, UNFINISHED);
    }

    /// What is stored of it when it ends, at `end` in ticks.
    #[inline(always)]
    pub fn ended(&self, end: u64) -> [u64; EVENT_WORDS] {
        [self.started, end, self.name, self.tie, self.place]
    }
}

impl Event {
    /// What is stored of the number of a collective.
    fn of_collective(sequence: u64) -> u32 {
        u32::try_from(sequence).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The number among the collectives of the run, if it [is
    /// one](mlprof_events::Observation::Collective).
    /// *Cost*: looks the action up.
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
    /// When.
    pub time: Timestamp,
    /// What.
    pub change: MemoryChange,
}

/// How many words a [`MemoryEvent`] is stored in.
pub const MEMORY_WORDS: usize = 6;

impl MemoryEvent {
    /// A change at this moment.
    #[doc(hidden)]
    #[inline]
    pub fn new(time: Timestamp, change: MemoryChange) -> Self {
        Self { time, change }
    }

    /// What is stored of it.
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
