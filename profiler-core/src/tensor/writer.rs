//! Recording on one thread: its open scopes, and the log that receives them when they end.

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;

use super::recording::{Recording, TrackLog};
use crate::Action;
use mlprof_events::ThreadName;
use mlprof_events::clock::{Clock, counter};
use mlprof_events::{
    Context, MemoryChange, OpStart, OpenActions, ShapeCache, ShapeList, Timestamp,
};
use mlprof_trace::MemoryEvent;
use mlprof_trace::internals::{EVENT_WORDS, LogWriter, MEMORY_WORDS, OpenEvent};

/// State of one thread in one recording.
struct Seat {
    recording: Arc<Recording>,
    track: Arc<TrackLog>,
    events: LogWriter<EVENT_WORDS>,
    memory: LogWriter<MEMORY_WORDS>,
    stack: Vec<OpenEvent>,
    /// Number of events when the current step began.
    count_at_step: u64,
}

/// Recordings of a thread: the most recently used one and others that are still active.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "`Current` points to a seat, which must not move")]
struct Writer {
    seats: Vec<Box<Seat>>,
    shapes: Option<Box<ShapeCache>>,
}

/// Seat that the thread used last, and the number of its recording. The number is 0 if there is
/// none.
///
/// *Invariant*: while `number` is not 0, `seat` points to a seat in this thread's `WRITER`, and
/// `shapes` to its shape cache. Code that borrows the writer first stores [`Current::NONE`], and
/// restores the pointers as its last step. Therefore a reference through these pointers is never
/// used at the same time as a borrow of the writer.
#[derive(Clone, Copy)]
struct Current {
    number: u64,
    seat: *mut Seat,
    shapes: *mut ShapeCache,
}

impl Current {
    const NONE: Self = Self { number: 0, seat: ptr::null_mut(), shapes: ptr::null_mut() };
}

impl Drop for Writer {
    fn drop(&mut self) {
        CURRENT.set(Current::NONE);
    }
}

thread_local! {
    static CURRENT: Cell<Current> = const { Cell::new(Current::NONE) };
    static WRITER: RefCell<Writer> =
        const { RefCell::new(Writer { seats: Vec::new(), shapes: None }) };
}

/// Calls `record` with the calling thread's seat in recording `number`. If the thread has no seat,
/// it creates one in the recording that `recording` returns. It does nothing while the thread is
/// torn down, or if the thread is already recording, for example when mlprof's own allocation is
/// measured.
fn with_seat<T>(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    record: impl FnOnce(&mut Seat, &mut ShapeCache) -> T,
) -> Option<T> {
    WRITER
        .try_with(|writer| {
            let mut writer = writer.try_borrow_mut().ok()?;
            CURRENT.set(Current::NONE);
            writer.seats.retain(|seat| !seat.recording.is_over());
            let known = writer.seats.iter().position(|seat| seat.recording.number == number);
            let index = match known {
                Some(known) => known,
                None => {
                    let recording = recording().filter(|recording| recording.number == number)?;
                    writer.seats.push(Box::new(Seat::new(recording)));
                    writer.seats.len() - 1
                }
            };
            let Writer { seats, shapes } = &mut *writer;
            let seat = &mut *seats[index];
            let shapes = &mut **shapes.get_or_insert_with(|| Box::new(ShapeCache::new()));
            let result = record(seat, shapes);
            CURRENT.set(Current { number, seat, shapes });
            Some(result)
        })
        .ok()
        .flatten()
}

/// Opens an op or another scope, with the shapes of its inputs if present.
#[inline(always)]
pub(crate) fn start(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    op: &OpStart<'_>,
    clock: &Clock,
) {
    let current = CURRENT.get();
    if current.number == number && clock.is_in_line() {
        // SAFETY: `current.number` is not 0, so by the invariant of `Current` both pointers are
        // valid and belong to this thread. This code neither borrows `WRITER` nor calls `start`
        // again, so no other reference to these values exists.
        let (seat, shapes) = unsafe { (&mut *current.seat, &mut *current.shapes) };
        let known = match op.inputs {
            Some(inputs) => shapes.known(inputs.words()),
            None => Some(ShapeList::NONE),
        };
        if let Some(shapes) = known
            && seat.stack.len() < seat.stack.capacity()
        {
            return seat.push(op, shapes, counter);
        }
    }
    start_slow(number, recording, op, clock);
}

#[cold]
#[inline(never)]
fn start_slow(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    op: &OpStart<'_>,
    clock: &Clock,
) {
    with_seat(number, recording, |seat, cache| {
        let shapes = op.inputs.map_or(ShapeList::NONE, |inputs| cache.intern(inputs.words()));
        seat.stack.reserve(1);
        seat.push(op, shapes, || clock.ticks());
    });
}

/// Closes the innermost open scope of `action`, if there is one.
#[inline(always)]
pub(crate) fn stop(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    action: Action,
    clock: &Clock,
) {
    if clock.is_in_line() {
        let now = counter();
        let current = CURRENT.get();
        // SAFETY: `current.number` is not 0, so by the invariant of `Current` the pointer is valid
        // and belongs to this thread. `stop_innermost` does not borrow `WRITER`, so no other
        // reference to the seat exists.
        if current.number == number && unsafe { &mut *current.seat }.stop_innermost(action, now) {
            return;
        }
        return stop_slow(number, recording, action, now);
    }
    stop_slow(number, recording, action, clock.ticks());
}

#[cold]
#[inline(never)]
fn stop_slow(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    action: Action,
    now: u64,
) {
    with_seat(number, recording, |seat, _| seat.stop(action, now));
}

/// Records allocated or freed memory.
pub(crate) fn memory(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    change: &MemoryChange,
    clock: &Clock,
) {
    let event = MemoryEvent::new(Timestamp::from_ticks(clock.now()), *change);
    let current = CURRENT.get();
    if current.number == number {
        // SAFETY: `current.number` is not 0, so by the invariant of `Current` the pointer is valid
        // and belongs to this thread. `push_to_current` does not borrow `WRITER`, so no other
        // reference to the seat exists.
        let seat = unsafe { &mut *current.seat };
        if seat.memory.push_to_current(event.to_words()) {
            return;
        }
    }
    memory_slow(number, recording, event);
}

#[cold]
#[inline(never)]
fn memory_slow(
    number: u64,
    recording: impl FnOnce() -> Option<Arc<Recording>>,
    event: MemoryEvent,
) {
    with_seat(number, recording, |seat, _| {
        seat.memory.push(&seat.track.memory, &seat.recording.budget, event.to_words());
    });
}

/// Marks the innermost open scope of the calling thread as the collective operation `sequence`.
pub(crate) fn mark_collective(number: u64, sequence: u64) {
    with_seat(
        number,
        || None,
        |seat, _| {
            if let Some(open) = seat.stack.last_mut() {
                open.set_collective(sequence);
            }
        },
    );
}

/// Ends all open scopes of the calling thread in this recording and marks them as unfinished.
pub(crate) fn finish(number: u64, now: u64) {
    let known = || None;
    with_seat(number, known, |seat, _| {
        while let Some(mut open) = seat.stack.pop() {
            open.set_unfinished();
            seat.record(open.ended(now));
        }
        seat.track.open.set(0);
    });
}

/// Removes the innermost open scope of `action` without recording it. With `only_if_empty`, it does
/// so only if the scope contains no events. Returns `false` if the scope is still open.
pub(crate) fn cancel(number: u64, action: Action, only_if_empty: bool) -> bool {
    with_seat(
        number,
        || None,
        |seat, _| {
            let Some(found) = seat.stack.iter().rposition(|open| open.is_of(action)) else {
                return true;
            };
            let is_empty =
                found + 1 == seat.stack.len() && seat.events.count() == seat.count_at_step;
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
        seat.count_at_step = seat.events.count();
        seat.push(step, ShapeList::NONE, || clock.now());
    });
}

/// Returns `true` if the calling thread has `action` open.
pub(crate) fn is_open(number: u64, action: Action) -> bool {
    let is_open = |seat: &mut Seat| seat.stack.iter().any(|event| event.is_of(action));
    with_seat(number, || None, |seat, _| is_open(seat)).unwrap_or(false)
}

/// Returns the context of the calling thread's current work, in step `step`.
pub(crate) fn context(number: u64, step: u64) -> Option<Context> {
    with_seat(
        number,
        || None,
        |seat, _| {
            let actions = seat.stack.iter().filter_map(OpenEvent::action).collect();
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
            events: LogWriter::default(),
            memory: LogWriter::default(),
            stack: Vec::with_capacity(64),
            count_at_step: 0,
        }
    }

    /// Opens a scope. The clock is read last, so the time of this function is not included.
    #[inline(always)]
    fn push(&mut self, op: &OpStart<'_>, shapes: ShapeList, ticks: impl FnOnce() -> u64) {
        let depth = self.stack.len();
        self.track.open.set(depth as u64 + 1);
        self.stack.push(OpenEvent::new(op, shapes, depth));
        if let Some(open) = self.stack.last_mut() {
            open.started = ticks();
        }
    }

    /// Closes the innermost scope. Returns `false` if it does not belong to `action`, or if the
    /// current chunk is full.
    #[inline(always)]
    fn stop_innermost(&mut self, action: Action, now: u64) -> bool {
        let depth = self.stack.len().wrapping_sub(1);
        let Some(open) = self.stack.get(depth) else { return false };
        if !open.is_of(action) || !self.events.push_to_current(open.ended(now)) {
            return false;
        }
        self.stack.truncate(depth);
        self.track.open.set(depth as u64);
        true
    }

    fn stop(&mut self, action: Action, now: u64) {
        if !self.stop_innermost(action, now) {
            self.stop_inside(action, now);
        }
    }

    /// Closes a scope that need not be the innermost one. Scopes opened inside it stay open:
    ///
    /// - If one of them is a step, the closed scope is marked as overlapping, and the others are
    ///   moved out of it. An example is an epoch that ends while its first step is still open.
    /// - Otherwise the scopes that stay open are marked as overlapping.
    fn stop_inside(&mut self, action: Action, now: u64) {
        let Some(found) = self.stack.iter().rposition(|open| open.is_of(action)) else { return };
        let mut ended = self.stack.remove(found);
        let others = &mut self.stack[found..];
        if others.iter().any(OpenEvent::is_step) {
            ended.set_overlaps();
            others.iter_mut().for_each(OpenEvent::move_out);
        } else {
            others.iter_mut().for_each(OpenEvent::set_overlaps);
        }
        self.record(ended.ended(now));
        self.track.open.set(self.stack.len() as u64);
    }

    fn record(&mut self, words: [u64; EVENT_WORDS]) {
        self.events.push(&self.track.events, &self.recording.budget, words);
    }
}

/// Returns the calling thread's id from the operating system, or one assigned by mlprof.
fn thread_number() -> u64 {
    #[cfg(target_os = "linux")]
    // SAFETY: `gettid` takes no arguments and always succeeds.
    return u64::from(unsafe { libc::gettid() }.unsigned_abs());
    #[cfg(not(target_os = "linux"))]
    {
        static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        thread_local!(static OWN: u64 =
            LAST.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
        OWN.try_with(|own| *own).unwrap_or(0)
    }
}
