//! How a thread records: its open scopes, and the place that they go to when they end.

use std::cell::RefCell;
use std::sync::Arc;

use super::event::{Event, MemoryEvent};
use super::recording::{Recording, TrackLog};
use super::track::LogWriter;
use crate::Action;
use crate::clock::Clock;
use crate::hook::{
    Context, Direction, MemoryChange, OpStart, OpenActions, ShapeCache, ShapeList, Timestamp,
};
use crate::recorder::ThreadName;

/// An open scope.
#[derive(Clone, Copy)]
struct Frame {
    started: u64,
    action: Action,
    shapes: ShapeList,
    sequence: u32,
    forward_thread: u32,
    context: Option<Context>,
    direction: Direction,
    overlaps: bool,
}

impl Frame {
    #[inline(always)]
    fn end(&self, end: u64, depth: usize) -> Event {
        Event {
            action: self.action,
            start: Timestamp::from_ticks(self.started),
            end: Timestamp::from_ticks(end),
            shapes: self.shapes,
            sequence: self.sequence,
            forward_thread: self.forward_thread,
            context: self.context,
            depth: depth.min(usize::from(u16::MAX)) as u16,
            direction: self.direction,
            is_unfinished: false,
            overlaps: self.overlaps,
        }
    }
}

/// What a thread has of one recording.
struct Seat {
    recording: Arc<Recording>,
    track: Arc<TrackLog>,
    events: LogWriter<{ super::event::EVENT_WORDS }>,
    memory: LogWriter<{ super::event::MEMORY_WORDS }>,
    stack: Vec<Frame>,
    /// How many scopes have ended.
    recorded: u64,
    /// The same when the running step began.
    recorded_at_step: u64,
}

/// A thread's recordings: the one that it used last, and others that still go on.
pub(crate) struct Writer {
    /// The number of the recording of `seat`; 0 without one.
    number: u64,
    seat: Option<Seat>,
    others: Vec<Seat>,
    shapes: Option<ShapeCache>,
}

thread_local! {
    static WRITER: RefCell<Writer> = const {
        RefCell::new(Writer { number: 0, seat: None, others: Vec::new(), shapes: None })
    };
}

/// Calls `record` with the calling thread's seat in `recording`. Nothing happens while the thread
/// records already (an allocation of ours that is itself measured) or is being torn down.
#[inline(always)]
fn with_seat<T>(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    record: impl FnOnce(&mut Seat, &mut Option<ShapeCache>) -> T,
) -> Option<T> {
    WRITER
        .try_with(|writer| {
            let mut writer = writer.try_borrow_mut().ok()?;
            if writer.number != number {
                writer.attach(number, recording);
            }
            let Writer { seat: Some(seat), shapes, number: own, .. } = &mut *writer else {
                return None;
            };
            (*own == number).then(|| record(seat, shapes))
        })
        .ok()
        .flatten()
}

impl Writer {
    #[cold]
    #[inline(never)]
    fn attach(&mut self, number: u64, recording: impl FnOnce() -> Option<Arc<Recording>>) {
        let left = self.seat.take();
        self.number = 0;
        self.others.extend(left);
        self.others.retain(|seat| !seat.recording.is_over());
        let known = self.others.iter().position(|seat| seat.recording.number == number);
        self.seat = match known {
            Some(known) => Some(self.others.swap_remove(known)),
            None => recording().filter(|recording| recording.number == number).map(Seat::new),
        };
        if self.seat.is_some() {
            self.number = number;
        }
    }
}

/// Opens a scope without inputs.
#[inline(always)]
pub(crate) fn start(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    action: Action,
    clock: &Clock,
) {
    with_seat(number, recording, |seat, _| {
        seat.push(&OpStart::new(action), ShapeList::NONE, clock);
    });
}

/// Opens an op, with the shapes of its inputs if there are any.
#[inline(always)]
pub(crate) fn start_op(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    op: &OpStart<'_>,
    clock: &Clock,
) {
    with_seat(number, recording, |seat, cache| {
        let shapes = match op.inputs {
            Some(inputs) => cache.get_or_insert_with(ShapeCache::new).intern(inputs.words()),
            None => ShapeList::NONE,
        };
        seat.push(op, shapes, clock);
    });
}

/// Closes the innermost open scope of `action`; false if there is none.
#[inline(always)]
pub(crate) fn stop(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    action: Action,
    clock: &Clock,
) -> bool {
    let now = clock.now();
    with_seat(number, recording, |seat, _| seat.stop(action, now)).unwrap_or(false)
}

/// Records allocated or freed memory.
#[inline]
pub(crate) fn memory(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    change: &MemoryChange,
    clock: &Clock,
) {
    with_seat(number, recording, |seat, _| {
        let event = MemoryEvent { time: Timestamp::from_ticks(clock.now()), change: *change };
        seat.memory.push(&seat.track.memory, &seat.recording.budget, event.to_words());
    });
}

/// Ends everything that the calling thread has open, and with it what it has of the recording.
pub(crate) fn finish(number: u64, now: u64) {
    let known = || None;
    with_seat(number, known, |seat, _| {
        while let Some(frame) = seat.stack.pop() {
            let event = Event { is_unfinished: true, ..frame.end(now, seat.stack.len()) };
            seat.record(event);
        }
        seat.track.open.set(0);
    });
}

/// Forgets the innermost open scope of `action`; with `only_if_empty`, only if nothing happened in
/// it. False if it is still open.
pub(crate) fn cancel(number: u64, action: Action, only_if_empty: bool) -> bool {
    with_seat(
        number,
        || None,
        |seat, _| {
            let Some(found) = seat.stack.iter().rposition(|frame| frame.action == action) else {
                return true;
            };
            let is_empty = found + 1 == seat.stack.len() && seat.recorded == seat.recorded_at_step;
            if only_if_empty && !is_empty {
                return false;
            }
            seat.stack.remove(found);
            seat.track.open.set(seat.stack.len() as u64);
            true
        },
    )
    .unwrap_or(true)
}

/// Opens the span of a step.
pub(crate) fn start_step(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    step: &OpStart<'_>,
    clock: &Clock,
) {
    with_seat(number, recording, |seat, _| {
        seat.recorded_at_step = seat.recorded;
        seat.push(step, ShapeList::NONE, clock);
    });
}

/// The context of what the calling thread does now, in step number `step`.
pub(crate) fn context(number: u64, step: u64) -> Option<Context> {
    with_seat(
        number,
        || None,
        |seat, _| {
            let actions = seat.stack.iter().map(|frame| frame.action).collect();
            let thread = seat.track.thread;
            seat.recording.contexts.intern(OpenActions { step, thread, actions })
        },
    )
    .flatten()
}

impl Seat {
    fn new(recording: Arc<Recording>) -> Self {
        let track = recording.register(ThreadName::of_this_thread(), thread_number());
        Self {
            recording,
            track,
            events: LogWriter::new(),
            memory: LogWriter::new(),
            stack: Vec::with_capacity(64),
            recorded: 0,
            recorded_at_step: 0,
        }
    }

    /// The clock is read last, so that none of the work here is counted.
    #[inline(always)]
    fn push(&mut self, op: &OpStart<'_>, shapes: ShapeList, clock: &Clock) {
        self.track.open.set(self.stack.len() as u64 + 1);
        let frame = Frame {
            started: 0,
            action: op.action,
            shapes,
            sequence: op.sequence,
            forward_thread: op.forward_thread,
            context: op.context,
            direction: op.direction,
            overlaps: false,
        };
        self.stack.push(frame);
        if let Some(frame) = self.stack.last_mut() {
            frame.started = clock.now();
        }
    }

    #[inline(always)]
    fn stop(&mut self, action: Action, now: u64) -> bool {
        match self.stack.last() {
            Some(frame) if frame.action == action => {
                let event = frame.end(now, self.stack.len() - 1);
                self.stack.pop();
                self.record(event);
                self.track.open.set(self.stack.len() as u64);
                true
            }
            _ => self.stop_inside(action, now),
        }
    }

    /// Closes a scope although others that were opened inside it are open: they go on, and none of
    /// them nests with the others any more.
    #[cold]
    #[inline(never)]
    fn stop_inside(&mut self, action: Action, now: u64) -> bool {
        let Some(found) = self.stack.iter().rposition(|frame| frame.action == action) else {
            return false;
        };
        let frame = self.stack.remove(found);
        for inside in &mut self.stack[found..] {
            inside.overlaps = true;
        }
        self.record(frame.end(now, found));
        self.track.open.set(self.stack.len() as u64);
        true
    }

    #[inline(always)]
    fn record(&mut self, event: Event) {
        self.recorded += 1;
        self.events.push(&self.track.events, &self.recording.budget, event.to_words());
    }
}

/// The operating system's number of the calling thread, or one of our own.
fn thread_number() -> u64 {
    #[cfg(target_os = "linux")]
    // SAFETY: takes nothing and always succeeds.
    return u64::from(unsafe { libc::gettid() }.unsigned_abs());
    #[cfg(not(target_os = "linux"))]
    {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        thread_local!(static OWN: u64 =
            LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
        OWN.try_with(|own| *own).unwrap_or(0)
    }
}
