//! The open scopes of one thread.
//!
//! The thread itself pushes and pops without locks or read-modify-writes; other threads may look
//! at any time to list what is open. A lock is taken where a thread goes from one chunk of frames to
//! the next, and where scopes do not end in the order in which they began.

mod deep;
mod frames;

use std::ptr;
use std::sync::PoisonError;

use self::deep::Deep;
pub(crate) use self::deep::Overtaken;
use self::frames::{CHUNK, Chunk, Frame, RECURSIVE};
use mlprof_events::Action;
use mlprof_events::sync::{AtomicPtr, Mutex, MutexGuard, Ordering, Tally, fence};

/// A scope that has ended. Times in ticks. Where the counters of two cores differ by a few ticks,
/// a span can wrap below 0; sums come out right all the same, and [`span`] makes it 0.
pub(crate) struct Closed<R> {
    pub(crate) record: *const R,
    pub(crate) started: u64,
    /// From start to stop.
    pub(crate) elapsed: u64,
    /// The part of `elapsed` that was spent in scopes directly inside.
    pub(crate) children: u64,
    /// It was not opened as one inside another of its action, or is on its own by now.
    pub(crate) is_outermost: bool,
    /// The scope had been overtaken: it was opened inside another one that has ended before it.
    pub(crate) is_detached: bool,
}

/// A span, or a sum of spans, that may have wrapped below 0.
pub(crate) fn span(ticks: u64) -> u64 {
    if ticks.cast_signed() < 0 { 0 } else { ticks }
}

/// Whether the counter was set back during a span, as when a machine is suspended to memory: by
/// some seconds at least. The counters of two cores differ by less.
pub(crate) fn was_set_back(elapsed: u64) -> bool {
    elapsed.cast_signed() < -(1 << 32)
}

/// A scope that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) action: Action,
    pub(crate) started: u64,
}

pub(crate) struct Stack<R> {
    /// The innermost open scope, or the frame before the first scope of a chunk.
    ///
    /// *Invariant*: points into the chunk that `deep.current` says, and `last` to the last frame of
    /// the same chunk. The two go to another chunk only while `deep` is locked.
    top: AtomicPtr<Frame<R>>,
    last: AtomicPtr<Frame<R>>,
    /// The first frame of the first chunk, which lives as long as the stack. It is no scope: it
    /// collects the time of the outermost ones.
    outside: *const Frame<R>,
    missed: Missed,
    deep: Mutex<Deep<R>>,
}

/// Scopes that there was no memory for. They are the innermost ones.
///
/// *Invariant*: written by the owning thread only. While `open` is above 0 the frame of the innermost scope that is
/// recorded is marked as [`RECURSIVE`], so that the fast path does not take the end of a missed scope for its end, and
/// `covered` is what the frame says otherwise.
struct Missed {
    /// Those that are open.
    open: Tally,
    /// All that there ever were.
    total: Tally,
    covered: Tally,
}

// SAFETY: the raw pointers are into the stack's own chunks, which do not move, and to records,
// which are themselves shared between threads (`R: Sync`) and never written through the stack.
unsafe impl<R: Sync> Send for Stack<R> {}
// SAFETY: as above; frames are atomics. That one thread alone opens and closes scopes is the duty
// of the caller.
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

    /// A place for one more scope, unless all of the chunk are taken. Only the owning thread may call
    /// this.
    #[inline(always)]
    pub(crate) fn room(&self) -> Option<Room<'_, R>> {
        let top = self.top.load(Ordering::Relaxed);
        (top < self.last.load(Ordering::Relaxed)).then_some(Room { stack: self, parent: top })
    }

    /// Closes the innermost scope if it is of `action`, as guards do, and not marked as recursive;
    /// `None` otherwise. Only the owning thread may call this.
    #[inline(always)]
    pub(crate) fn pop(&self, action: Action, now: u64) -> Option<Closed<R>> {
        let top = self.top.load(Ordering::Relaxed);
        // SAFETY: `top` points into a chunk.
        if unsafe { &*top }.action.load(Ordering::Relaxed) != action.number() {
            return None;
        }
        // SAFETY: the first frame of a chunk has no action, so `top` is not that.
        Some(unsafe { self.close(top, now, true) })
    }

    /// # Safety
    ///
    /// `frame` must be a scope's of the chunk in use.
    #[inline(always)]
    unsafe fn close(&self, frame: *mut Frame<R>, now: u64, is_outermost: bool) -> Closed<R> {
        // SAFETY: as the caller promises; before a scope's frame there is another one.
        let (frame, below, parent) = unsafe { (&*frame, frame.sub(1), &*frame.sub(1)) };
        let started = frame.started.load(Ordering::Relaxed);
        let elapsed = now.wrapping_sub(started);
        let children = frame.children.get();
        let record = frame.record.load(Ordering::Relaxed).cast_const();
        self.top.store(below, Ordering::Release);
        parent.children.add(elapsed);
        Closed { record, started, elapsed, children, is_outermost, is_detached: false }
    }

    /// A place for one more scope at any depth. `None` if the system has no memory for it: then the
    /// scope is missed, and its end is to be told to [`close_missed`](Self::close_missed). Only the
    /// owning thread may call this.
    #[inline]
    pub(crate) fn make_room(&self) -> Option<Room<'_, R>> {
        self.room().or_else(|| self.more_room())
    }

    #[cold]
    #[inline(never)]
    fn more_room(&self) -> Option<Room<'_, R>> {
        let mut deep = self.deep();
        // A scope inside of one that was missed is missed, too: they end in this order.
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
            // SAFETY: `top` points into a chunk.
            let action = &unsafe { &*self.top.load(Ordering::Relaxed) }.action;
            let covered = action.load(Ordering::Relaxed);
            self.missed.covered.set(u64::from(covered));
            action.store(covered | RECURSIVE, Ordering::Relaxed);
        }
        self.missed.open.add(1);
        self.missed.total.add(1);
    }

    /// Ends the innermost scope that was missed; false if none is open. Only the owning thread may
    /// call this.
    pub(crate) fn close_missed(&self) -> bool {
        let open = self.missed.open.get();
        if open == 0 {
            return false;
        }
        self.missed.open.set(open - 1);
        if open == 1 {
            let covered = self.missed.covered.get() as u32;
            // SAFETY: `top` points into a chunk.
            unsafe { &*self.top.load(Ordering::Relaxed) }.action.store(covered, Ordering::Relaxed);
        }
        true
    }

    /// How many scopes there was no memory for. Any thread may call this.
    pub(crate) fn missed(&self) -> u64 {
        self.missed.total.get()
    }

    /// Makes a frame of `chunk` the top.
    fn go_to(&self, top: *mut Frame<R>, chunk: &Chunk<R>) {
        self.last.store(chunk.last(), Ordering::Relaxed);
        self.top.store(top, Ordering::Release);
    }

    /// Closes the innermost open scope of `action`, whatever its depth. If it is not the innermost
    /// of all, the scopes opened inside it are detached and stay open; `on_detach` is told of each.
    /// `None` if the thread has no such scope. Only the owning thread may call this.
    ///
    /// *Cost*: as many frames are looked at as there are in a chunk, and as many more as scopes are
    /// detached, each once.
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
        // SAFETY: `found` is the place of an open scope in the chunk in use.
        Some(unsafe { self.close(frame, now, !(*frame).is_recursive()) })
    }

    /// What is open now, outermost first, and then what is detached. Any thread may call this; a
    /// scope that is being opened or closed at this moment may be missing.
    pub(crate) fn open(&self) -> Vec<Open> {
        let mut open = Vec::new();
        loop {
            let deep = self.deep();
            // While the chunk in use is locked, too, its owner opens and closes scopes in it.
            let taken = deep.chunk().open_below(self.top.load(Ordering::Acquire));
            let most = deep.current * CHUNK + taken + deep.detached().count();
            if most > open.capacity() {
                // Memory is taken without the lock: who waits for it may have interrupted the allocator.
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

    /// Tells the [numbers](Action::number) of the actions that are open, outermost first. For a
    /// signal handler that has interrupted the owning thread: takes no lock, and so leaves out what
    /// is open beyond the first chunk.
    pub(crate) fn tell_open(&self, tell: &mut dyn FnMut(u32)) {
        let top = self.top.load(Ordering::Acquire).cast_const();
        let last = self.outside.wrapping_add(CHUNK);
        let last = if (self.outside..=last).contains(&top) { top } else { last };
        let mut frame = self.outside;
        while frame < last {
            frame = frame.wrapping_add(1);
            // SAFETY: not above the last frame of the first chunk, which lives as long as the stack.
            tell(unsafe { &*frame }.action.load(Ordering::Relaxed) & !RECURSIVE);
        }
    }

    fn as_open(frame: &Frame<R>) -> Option<Open> {
        let started = frame.started.load(Ordering::Acquire);
        frame.action().map(|action| Open { action, started })
    }

    /// The scope in `frame` of the chunk in use, if it does not change at this moment.
    fn read(&self, frame: &Frame<R>) -> Option<Open> {
        let open = Self::as_open(frame);
        fence(Ordering::Acquire);
        let is_open = self.top.load(Ordering::Acquire).cast_const() >= ptr::from_ref(frame);
        let started = frame.started.load(Ordering::Relaxed);
        open.filter(|open| is_open && started == open.started)
    }

    /// The innermost open scope, unless it is the last of a chunk. Only the owning thread may call this.
    pub(crate) fn innermost(&self) -> Option<Action> {
        // SAFETY: `top` points into a chunk.
        unsafe { &*self.top.load(Ordering::Relaxed) }.action()
    }

    pub(crate) fn is_empty(&self) -> bool {
        let top = self.top.load(Ordering::Acquire).cast_const();
        ptr::eq(top, self.outside) && !self.deep().has_detached()
    }

    /// Takes what the outermost scopes have added up to. Only the owning thread may call this.
    pub(crate) fn take_outermost_time(&self) -> u64 {
        // SAFETY: the first chunk lives as long as the stack.
        let outermost = &unsafe { &*self.outside }.children;
        let time = outermost.get();
        outermost.set(0);
        time
    }

    /// Counts `time` as spent inside the innermost open scope. Only the owning thread may call this.
    pub(crate) fn add_inner_time(&self, time: u64) {
        // SAFETY: `top` points into a chunk. If to the frame before its scopes, the time reaches the
        // scope below with that of the others in the chunk.
        unsafe { &*self.top.load(Ordering::Relaxed) }.children.add(time);
    }
}

/// A place for one more scope; see [`Stack::room`].
pub(crate) struct Room<'stack, R> {
    stack: &'stack Stack<R>,
    /// *Invariant*: in the chunk in use, and not its last frame.
    parent: *mut Frame<R>,
}

impl<R> Room<'_, R> {
    /// Opens a scope. The clock is read last, so that none of the work here is counted.
    #[inline(always)]
    pub(crate) fn push(self, action: Action, record: *const R, ticks: impl FnOnce() -> u64) {
        self.push_marked(action, 0, record, ticks);
    }

    /// Opens a scope, `is_recursive` if another one of its action is open that is to be counted in
    /// full.
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
        // SAFETY: by the invariant, the next frame is one of the chunk in use.
        let frame = unsafe { &*next };
        // After the lowering of the top in `close`, for a reader that sees what is stored here.
        fence(Ordering::Release);
        frame.action.store(action.number() | mark, Ordering::Relaxed);
        frame.record.store(record.cast_mut(), Ordering::Relaxed);
        frame.children.set(0);
        frame.started.store(ticks(), Ordering::Release);
        self.stack.top.store(next, Ordering::Release);
    }
}

/// How many frames, or places of a call tree, were looked at: what a stop or a start costs, without a
/// clock.
#[cfg(test)]
pub(crate) mod looks {
    use std::cell::Cell;

    thread_local! {
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    pub(crate) fn add(frames: usize) {
        LOOKS.set(LOOKS.get() + frames);
    }

    /// By this thread until now.
    pub(crate) fn count() -> usize {
        LOOKS.get()
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
