//! Stack of the open scopes of one thread.
//!
//! The owning thread pushes and pops without locks or read-modify-write operations. Other threads
//! may list the open scopes at any time. The owner takes a lock only in two cases: when it moves
//! from one chunk of frames to another, and when scopes end out of order.

mod deep;
mod frames;

use std::ptr;
use std::sync::PoisonError;

use self::deep::Deep;
pub(crate) use self::deep::Overtaken;
use self::frames::{CHUNK, Chunk, Frame, RECURSIVE};
use mlprof_events::Action;
use mlprof_events::sync::{AtomicPtr, Mutex, MutexGuard, Ordering, Tally, fence};

/// Scope that has ended. Times are in ticks. The counters of two cores may differ by a few ticks,
/// so a span can wrap below 0. Sums of spans stay correct, and [`span`] turns a negative result
/// into 0.
pub(crate) struct Closed<R> {
    pub(crate) record: *const R,
    pub(crate) started: u64,
    /// Ticks from start to stop.
    pub(crate) elapsed: u64,
    /// Part of `elapsed` that was spent in scopes directly inside.
    pub(crate) children: u64,
    /// `true` if the scope was not opened inside another one of its action, or has been detached
    /// since.
    pub(crate) is_outermost: bool,
    /// `true` if the enclosing scope ended before this one.
    pub(crate) is_detached: bool,
}

/// Returns a span or a sum of spans, or 0 if it has wrapped below 0.
pub(crate) fn span(ticks: u64) -> u64 {
    if ticks.cast_signed() < 0 { 0 } else { ticks }
}

/// Returns `true` if the counter was set back during a span, for example by a suspend to memory.
/// Such a jump is at least some seconds, while the counters of two cores differ by less.
pub(crate) fn was_set_back(elapsed: u64) -> bool {
    elapsed.cast_signed() < -(1 << 32)
}

/// Scope that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) action: Action,
    pub(crate) started: u64,
}

pub(crate) struct Stack<R> {
    /// Frame of the innermost open scope, or the base frame of a chunk.
    ///
    /// *Invariant*: points into the chunk at index `deep.current`, and `last` points to the last
    /// frame of that chunk. Both move to another chunk only while `deep` is locked.
    top: AtomicPtr<Frame<R>>,
    last: AtomicPtr<Frame<R>>,
    /// Base frame of the first chunk, which lives as long as the stack. It is not a scope; it
    /// accumulates the time of the outermost scopes.
    outside: *const Frame<R>,
    missed: Missed,
    deep: Mutex<Deep<R>>,
}

/// Scopes that were not recorded for lack of memory. They are always the innermost ones.
///
/// *Invariant*: written only by the owning thread. While `open` is above 0, the frame of the
/// innermost recorded scope is marked as [`RECURSIVE`]. The mark keeps the fast path from closing
/// that scope when a missed scope ends. `covered` holds the frame's action value without the added
/// mark.
struct Missed {
    /// Number of missed scopes that are open.
    open: Tally,
    /// Number of all missed scopes, open or ended.
    total: Tally,
    covered: Tally,
}

// SAFETY: the raw pointers lead to two kinds of data. Frames are in the stack's own chunks, which
// do not move. Records may be shared between threads (`R: Sync`), and the stack never writes them.
unsafe impl<R: Sync> Send for Stack<R> {}
// SAFETY: other threads only read frames, and all fields of a frame are atomic. Records are `Sync`.
// Callers must guarantee that only one thread opens and closes scopes.
unsafe impl<R: Sync> Sync for Stack<R> {}

impl<R> Stack<R> {
    pub(crate) fn new() -> Self {
        let first = Chunk::first();
        Self {
            top: AtomicPtr::new(first.base()),
            last: AtomicPtr::new(first.last()),
            outside: first.base(),
            missed: Missed { open: Tally::new(0), total: Tally::new(0), covered: Tally::new(0) },
            deep: Mutex::new(Deep::new(first)),
        }
    }

    fn deep(&self) -> MutexGuard<'_, Deep<R>> {
        self.deep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the place for one more scope, unless the current chunk is full. Only the owning
    /// thread may call this.
    #[inline(always)]
    pub(crate) fn room(&self) -> Option<Room<'_, R>> {
        let top = self.top.load(Ordering::Relaxed);
        (top < self.last.load(Ordering::Relaxed)).then_some(Room { stack: self, parent: top })
    }

    /// Closes the innermost scope if it is of `action`, as guards do, and not marked as recursive.
    /// Returns `None` otherwise. Only the owning thread may call this.
    #[inline(always)]
    pub(crate) fn pop(&self, action: Action, now: u64) -> Option<Closed<R>> {
        let top = self.top.load(Ordering::Relaxed);
        // SAFETY: `top` always points to an initialised frame of a chunk, and chunks in use are not
        // freed.
        if unsafe { &*top }.action.load(Ordering::Relaxed) != action.number() {
            return None;
        }
        // SAFETY: the base frame of a chunk has no action, so `top` is the frame of a scope. By the
        // invariant it is in the current chunk.
        Some(unsafe { self.close(top, now, true) })
    }

    /// # Safety
    ///
    /// `frame` must be the frame of an open scope in the current chunk.
    #[inline(always)]
    unsafe fn close(&self, frame: *mut Frame<R>, now: u64, is_outermost: bool) -> Closed<R> {
        // SAFETY: the caller guarantees that `frame` is a scope's frame in the current chunk. The
        // base frame precedes all of these, so `frame.sub(1)` is in the same chunk.
        let (frame, below, parent) = unsafe { (&*frame, frame.sub(1), &*frame.sub(1)) };
        let started = frame.started.load(Ordering::Relaxed);
        let elapsed = now.wrapping_sub(started);
        let children = frame.children.get();
        let record = frame.record.load(Ordering::Relaxed).cast_const();
        self.top.store(below, Ordering::Release);
        parent.children.add(elapsed);
        Closed { record, started, elapsed, children, is_outermost, is_detached: false }
    }

    /// Returns the place for one more scope at any depth. Returns `None` if the system has no
    /// memory; then the scope counts as missed, and the caller must end it with
    /// [`close_missed`](Self::close_missed). Only the owning thread may call this.
    #[inline]
    pub(crate) fn make_room(&self) -> Option<Room<'_, R>> {
        self.room().or_else(|| self.more_room())
    }

    #[cold]
    #[inline(never)]
    fn more_room(&self) -> Option<Room<'_, R>> {
        let mut deep = self.deep();
        // A scope inside a missed scope is also missed, so that missed scopes end before recorded
        // ones.
        let chunk = if self.missed.open.get() == 0 { deep.go_up() } else { None };
        let Some(chunk) = chunk else {
            drop(deep);
            self.miss();
            return None;
        };
        let parent = chunk.base();
        self.go_to(parent, chunk);
        Some(Room { stack: self, parent })
    }

    fn miss(&self) {
        if self.missed.open.get() == 0 {
            // SAFETY: `top` always points to an initialised frame of a chunk, and chunks in use are
            // not freed.
            let action = &unsafe { &*self.top.load(Ordering::Relaxed) }.action;
            let covered = action.load(Ordering::Relaxed);
            self.missed.covered.set(u64::from(covered));
            action.store(covered | RECURSIVE, Ordering::Relaxed);
        }
        self.missed.open.add(1);
        self.missed.total.add(1);
    }

    /// Ends the innermost missed scope. Returns `false` if none is open. Only the owning thread may
    /// call this.
    pub(crate) fn close_missed(&self) -> bool {
        let open = self.missed.open.get();
        if open == 0 {
            return false;
        }
        self.missed.open.set(open - 1);
        if open == 1 {
            let covered = self.missed.covered.get() as u32;
            // SAFETY: `top` always points to an initialised frame of a chunk, and chunks in use are
            // not freed.
            unsafe { &*self.top.load(Ordering::Relaxed) }.action.store(covered, Ordering::Relaxed);
        }
        true
    }

    /// Returns the number of scopes missed for lack of memory. Any thread may call this.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.total.get()
    }

    /// Makes a frame of `chunk` the top.
    fn go_to(&self, top: *mut Frame<R>, chunk: &Chunk<R>) {
        self.last.store(chunk.last(), Ordering::Relaxed);
        self.top.store(top, Ordering::Release);
    }

    /// Closes the innermost open scope of `action` at any depth. Scopes that were opened inside it
    /// are detached and stay open; `on_detach` is called for each. Returns `None` if the thread has
    /// no such scope. Only the owning thread may call this.
    ///
    /// *Cost*: visits at most the frames of one chunk, plus each detached scope once.
    pub(crate) fn pop_any(
        &self,
        action: Action,
        now: u64,
        mut on_detach: impl FnMut(&Overtaken<R>),
    ) -> Option<Closed<R>> {
        let mut deep = self.deep();
        while deep.current > 0 && deep.chunk().base() == self.top.load(Ordering::Relaxed) {
            let chunk = deep.go_down();
            self.go_to(chunk.last(), chunk);
        }
        let mut overtaken = Vec::new();
        let found = loop {
            let open = deep.chunk().open_below(self.top.load(Ordering::Relaxed));
            let is_match = |frame: &Frame<R>| frame.action() == Some(action);
            let position = deep.chunk().scopes()[..open].iter().rposition(is_match);
            #[cfg(test)]
            looks::add(open - position.unwrap_or(0));
            if position.is_none() && !deep.is_open_below(action) {
                return deep.close_detached(action, now);
            }
            let inside = position.map_or(0, |position| position + 1)..open;
            overtaken.extend(deep.chunk().scopes()[inside].iter().rev().filter_map(Overtaken::of));
            match position {
                Some(position) => break position + 1,
                None => {
                    let chunk = deep.go_down();
                    self.go_to(chunk.last(), chunk);
                }
            }
        };
        for scope in overtaken.iter().rev() {
            on_detach(scope);
            deep.detach(scope);
        }
        let frame = deep.chunk().base().wrapping_add(found);
        // SAFETY: `found` is the index of an open scope's frame in the current chunk.
        Some(unsafe { self.close(frame, now, !(*frame).is_recursive()) })
    }

    /// Returns the open scopes, outermost first, followed by the detached ones. Any thread may call
    /// this. A scope that is being opened or closed at this moment may be missing.
    pub(crate) fn open(&self) -> Vec<Open> {
        let mut open = Vec::new();
        loop {
            let deep = self.deep();
            // The lock does not stop the owner from opening and closing scopes in the current
            // chunk.
            let taken = deep.chunk().open_below(self.top.load(Ordering::Acquire));
            let most = deep.current * CHUNK + taken + deep.detached().count();
            if most > open.capacity() {
                // Memory is allocated without the lock. The thread that waits for the lock may be
                // in a signal handler that has interrupted the allocator.
                drop(deep);
                open.reserve(most);
                continue;
            }
            let full = deep.chunks[..deep.current].iter().flat_map(Chunk::scopes);
            open.extend(full.filter_map(Self::as_open));
            open.extend(deep.chunk().scopes()[..taken].iter().filter_map(|frame| self.read(frame)));
            open.extend(deep.detached());
            return open;
        }
    }

    /// Passes the [numbers](Action::number) of the open actions to `tell`, outermost first. For a
    /// signal handler that has interrupted the owning thread: it takes no lock, so it omits scopes
    /// beyond the first chunk.
    pub(crate) fn tell_open(&self, tell: &mut dyn FnMut(u32)) {
        let top = self.top.load(Ordering::Acquire).cast_const();
        let last = self.outside.wrapping_add(CHUNK);
        let last = if (self.outside..=last).contains(&top) { top } else { last };
        let mut frame = self.outside;
        while frame < last {
            frame = frame.wrapping_add(1);
            // SAFETY: `frame` is at most the last frame of the first chunk. That chunk lives as
            // long as the stack, and its fields are atomic.
            tell(unsafe { &*frame }.action.load(Ordering::Relaxed) & !RECURSIVE);
        }
    }

    fn as_open(frame: &Frame<R>) -> Option<Open> {
        let started = frame.started.load(Ordering::Acquire);
        frame.action().map(|action| Open { action, started })
    }

    /// Reads the scope in `frame` of the current chunk. Returns `None` if the frame changed during
    /// the read.
    fn read(&self, frame: &Frame<R>) -> Option<Open> {
        let open = Self::as_open(frame);
        fence(Ordering::Acquire);
        let is_open = self.top.load(Ordering::Acquire).cast_const() >= ptr::from_ref(frame);
        let started = frame.started.load(Ordering::Relaxed);
        open.filter(|open| is_open && started == open.started)
    }

    /// Returns the action of the innermost open scope, unless that scope is the last of a chunk.
    /// Only the owning thread may call this.
    pub(crate) fn innermost(&self) -> Option<Action> {
        // SAFETY: `top` always points to an initialised frame of a chunk, and chunks in use are not
        // freed.
        unsafe { &*self.top.load(Ordering::Relaxed) }.action()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let top = self.top.load(Ordering::Acquire).cast_const();
        ptr::eq(top, self.outside) && !self.deep().has_detached()
    }

    /// Returns the total time of the outermost scopes and resets it to 0. Only the owning thread
    /// may call this.
    pub(crate) fn take_outermost_time(&self) -> u64 {
        // SAFETY: `outside` is a frame of the first chunk, which lives as long as the stack.
        let outermost = &unsafe { &*self.outside }.children;
        let time = outermost.get();
        outermost.set(0);
        time
    }

    /// Counts `time` as spent inside the innermost open scope. Only the owning thread may call
    /// this.
    pub(crate) fn add_inner_time(&self, time: u64) {
        // SAFETY: `top` always points to an initialised frame of a chunk. If it is the base frame,
        // the time reaches the scope below when the stack leaves the chunk.
        unsafe { &*self.top.load(Ordering::Relaxed) }.children.add(time);
    }
}

/// Place for one more scope; see [`Stack::room`].
pub(crate) struct Room<'stack, R> {
    stack: &'stack Stack<R>,
    /// *Invariant*: a frame of the current chunk, but not its last one.
    parent: *mut Frame<R>,
}

impl<R> Room<'_, R> {
    /// Opens a scope. It reads the clock last, so the work done here is not measured.
    #[inline(always)]
    pub(crate) fn push(self, action: Action, record: *const R, ticks: impl FnOnce() -> u64) {
        self.push_marked(action, 0, record, ticks);
    }

    /// Opens a scope. `is_recursive` is `true` if another scope of the action is open and is
    /// counted in full.
    pub(crate) fn push_any(
        self,
        action: Action,
        record: *const R,
        is_recursive: bool,
        ticks: impl FnOnce() -> u64,
    ) {
        self.push_marked(action, if is_recursive { RECURSIVE } else { 0 }, record, ticks);
    }

    #[inline(always)]
    fn push_marked(self, action: Action, mark: u32, record: *const R, ticks: impl FnOnce() -> u64) {
        let next = self.parent.wrapping_add(1);
        // SAFETY: by the invariant, the next frame is in the current chunk. Frames are initialised
        // when the chunk is made.
        let frame = unsafe { &*next };
        // This fence orders the new values after the lowering of the top in `close`. A reader that
        // sees a new value also sees the lowered top.
        fence(Ordering::Release);
        frame.action.store(action.number() | mark, Ordering::Relaxed);
        frame.record.store(record.cast_mut(), Ordering::Relaxed);
        frame.children.set(0);
        frame.started.store(ticks(), Ordering::Release);
        self.stack.top.store(next, Ordering::Release);
    }
}

/// Counts visited frames and call tree nodes. The count is the cost of a start or stop, independent
/// of the clock.
#[cfg(test)]
pub(crate) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn add(frames: usize) {
        LOOKS.set(LOOKS.get() + frames);
    }

    /// Returns the count of this thread until now.
    pub(crate) fn count() -> usize {
        LOOKS.get()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
