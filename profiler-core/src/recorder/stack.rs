//! The open scopes of one thread.
//!
//! The thread itself pushes and pops without locks or read-modify-writes; other threads may look
//! at any time to list what is open.

use std::ptr;
use std::sync::PoisonError;

use crate::action::Action;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, Tally, fence};

/// How many scopes may be open on a thread before further ones take a slower way.
#[cfg(not(loom))]
const FAST_DEPTH: usize = 126;
#[cfg(loom)]
const FAST_DEPTH: usize = 1;

/// One open scope. `R` is what the owner of the stack records the scope in; it must outlive the
/// stack.
///
/// *Invariant*: only the owning thread writes. It changes the other fields while the frame is above
/// the stack's top, and stores `started` before it raises the top over it. So a reader that finds
/// the same `started` before and after reading the others, and the top not below the frame after
/// reading them, has read them as they were.
// A cache line each: a scope touches as few lines as can be, and none of another thread's.
#[repr(C, align(64))]
struct Frame<R> {
    started: AtomicU64,
    /// Ticks spent in scopes directly inside this one that have ended.
    children: Tally,
    record: AtomicPtr<R>,
    /// The actions of this scope and of those around it, as [bits](bit_of) that several may share.
    actions: Tally,
    /// [`Action::number`], with [`RECURSIVE`] or without; 0 in the first frame, in the last, and in
    /// one that never was used.
    action: AtomicU32,
}

/// Marks a scope inside another one of the same action. Only stacks that are asked to mark them
/// do; the mark keeps the fast path from taking it for one to be counted in full.
const RECURSIVE: u32 = 1 << 31;

/// One of 64 bits for an action.
#[inline(always)]
fn bit_of(number: u32) -> u64 {
    1 << (number % u64::BITS)
}

impl<R> Frame<R> {
    fn unused() -> Self {
        Self {
            started: AtomicU64::new(0),
            children: Tally::new(0),
            record: AtomicPtr::new(ptr::null_mut()),
            actions: Tally::new(0),
            action: AtomicU32::new(0),
        }
    }
}

/// A scope that has ended. Times in ticks. Where the counters of two cores differ by a few ticks,
/// a span can wrap below 0; sums come out right all the same, and [`span`] makes it 0.
pub(crate) struct Closed<R> {
    pub(crate) record: *const R,
    pub(crate) started: u64,
    /// From start to stop.
    pub(crate) elapsed: u64,
    /// The part of `elapsed` that was spent in scopes directly inside.
    pub(crate) children: u64,
    /// No other scope of the action was open around it.
    pub(crate) is_outermost: bool,
    /// The scope had been overtaken: it was opened inside another one that has ended before it.
    pub(crate) is_detached: bool,
}

/// A span, or a sum of spans, that may have wrapped below 0.
pub(crate) fn span(ticks: u64) -> u64 {
    if ticks.cast_signed() < 0 { 0 } else { ticks }
}

/// A scope that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) action: Action,
    pub(crate) started: u64,
}

/// An open scope outside of the frames.
struct Other<R> {
    action: Action,
    is_recursive: bool,
    started: u64,
    children: u64,
    record: *const R,
}

struct Others<R> {
    /// Scopes opened when all frames were taken, the innermost last.
    deep: Vec<Other<R>>,
    /// Scopes whose surrounding scope has ended: their guards were leaked, or outlived the other's.
    /// They are no longer what new scopes are inside of.
    detached: Vec<Other<R>>,
}

pub(crate) struct Stack<R> {
    /// The first frame is no scope: it collects the time of the outermost ones. The last is none
    /// either: it is on top while scopes are open beyond the frames, and matches no action.
    frames: Box<[Frame<R>]>,
    /// The innermost open scope.
    ///
    /// *Invariant*: points into `frames`; to the last one only while `others.deep` is not empty.
    top: AtomicPtr<Frame<R>>,
    /// The last frame that a scope can take.
    last: *const Frame<R>,
    others: Mutex<Others<R>>,
}

// SAFETY: the raw pointers are into the stack's own frames, which do not move, and to records,
// which are themselves shared between threads (`R: Sync`) and never written through the stack.
unsafe impl<R: Sync> Send for Stack<R> {}
// SAFETY: as above; frames are atomics. That one thread alone opens and closes scopes is the duty
// of the caller.
unsafe impl<R: Sync> Sync for Stack<R> {}

impl<R> Stack<R> {
    pub(crate) fn new() -> Self {
        let frames: Box<[Frame<R>]> = (0..FAST_DEPTH + 2).map(|_| Frame::unused()).collect();
        Self {
            top: AtomicPtr::new(ptr::from_ref(&frames[0]).cast_mut()),
            last: &raw const frames[FAST_DEPTH],
            frames,
            others: Mutex::new(Others { deep: Vec::new(), detached: Vec::new() }),
        }
    }

    fn others(&self) -> MutexGuard<'_, Others<R>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more scope, unless all are taken. Only the owning thread may call this.
    #[inline(always)]
    pub(crate) fn room(&self) -> Option<Room<'_, R>> {
        let top = self.top.load(Ordering::Relaxed);
        // SAFETY: `top` points into `frames`.
        (top.cast_const() < self.last).then(|| Room { stack: self, parent: unsafe { &*top } })
    }

    /// Closes the innermost scope if it is of `action`, as guards do, and not marked as recursive;
    /// `None` otherwise. Only the owning thread may call this.
    #[inline(always)]
    pub(crate) fn pop(&self, action: Action, now: u64) -> Option<Closed<R>> {
        let top = self.top.load(Ordering::Relaxed);
        // SAFETY: `top` points into `frames`.
        if unsafe { &*top }.action.load(Ordering::Relaxed) != action.number() {
            return None;
        }
        // SAFETY: the first frame has no action, so `top` is not the first one.
        Some(unsafe { self.close(top, now, true) })
    }

    /// # Safety
    ///
    /// `frame` must be one of `frames`, and not the first.
    #[inline(always)]
    unsafe fn close(&self, frame: *mut Frame<R>, now: u64, is_outermost: bool) -> Closed<R> {
        // SAFETY: as the caller promises.
        let (frame, below, parent) = unsafe { (&*frame, frame.sub(1), &*frame.sub(1)) };
        let started = frame.started.load(Ordering::Relaxed);
        let elapsed = now.wrapping_sub(started);
        let children = frame.children.get();
        let record = frame.record.load(Ordering::Relaxed).cast_const();
        self.top.store(below, Ordering::Release);
        parent.children.add(elapsed);
        Closed { record, started, elapsed, children, is_outermost, is_detached: false }
    }

    /// Whether a scope of the action is open.
    fn is_open(&self, action: Action, deep: &[Other<R>]) -> bool {
        let open = &self.frames[1..=self.depth()];
        open.iter().any(|frame| frame.action() == Some(action))
            || deep.iter().any(|scope| scope.action == action)
    }

    /// Opens a scope at any depth; with `marks_recursion`, [marked](RECURSIVE) if it is inside
    /// another one of the same action. Only the owning thread may call this.
    pub(crate) fn push_any(
        &self,
        action: Action,
        record: *const R,
        marks_recursion: bool,
        ticks: impl FnOnce() -> u64,
    ) {
        let mut others = self.others();
        let is_recursive = marks_recursion && self.is_open(action, &others.deep);
        if let Some(room) = self.room() {
            let mark = if is_recursive { RECURSIVE } else { 0 };
            return room.push_marked(action, mark, record, ticks);
        }
        let sentinel: *const Frame<R> = &self.frames[FAST_DEPTH + 1];
        self.top.store(sentinel.cast_mut(), Ordering::Release);
        others.deep.push(Other { action, is_recursive, started: ticks(), children: 0, record });
    }

    /// Closes the innermost open scope of `action`, whatever its depth. If it is not the innermost
    /// of all, the scopes opened inside it are detached and stay open; `on_detach` is told each
    /// one's record. `None` if the thread has no such scope. Only the owning thread may call this.
    pub(crate) fn pop_any(
        &self,
        action: Action,
        now: u64,
        on_detach: impl Fn(*const R),
    ) -> Option<Closed<R>> {
        let mut others = self.others();
        let Others { deep, detached } = &mut *others;
        if let Some(index) = deep.iter().rposition(|scope| scope.action == action) {
            let inside = deep.drain(index + 1..).inspect(|scope| on_detach(scope.record));
            detached.extend(inside);
            let closed = deep.pop()?.close(now, false);
            match deep.last_mut() {
                Some(parent) => parent.children = parent.children.wrapping_add(closed.elapsed),
                None => {
                    self.top.store(self.last.cast_mut(), Ordering::Release);
                    self.frames[FAST_DEPTH].children.add(closed.elapsed);
                }
            }
            return Some(closed);
        }
        let is_match = |index: &usize| self.frames[*index].action() == Some(action);
        let depth = self.depth();
        let Some(found) = (1..=depth).rev().find(is_match) else {
            let index = detached.iter().rposition(|scope| scope.action == action)?;
            return Some(detached.remove(index).close(now, true));
        };
        let frames = self.frames[found + 1..=depth].iter().filter_map(Frame::as_other);
        let inside = frames.chain(deep.drain(..)).inspect(|scope| on_detach(scope.record));
        detached.extend(inside);
        let is_outermost = !self.frames[found].is_recursive();
        let frame = ptr::from_ref(&self.frames[found]).cast_mut();
        // SAFETY: `found` is not 0.
        Some(unsafe { self.close(frame, now, is_outermost) })
    }

    /// How many frames are scopes.
    fn depth(&self) -> usize {
        let top = self.top.load(Ordering::Acquire).cast_const();
        let taken = self.frames.iter().position(|frame| ptr::eq(frame, top)).unwrap_or(0);
        taken.min(FAST_DEPTH)
    }

    /// What is open now, outermost first. Any thread may call this; a scope that is being opened
    /// or closed at this moment may be missing.
    pub(crate) fn open(&self) -> Vec<Open> {
        let frames = &self.frames[1..=self.depth()];
        let mut open: Vec<Open> = frames.iter().filter_map(|frame| self.read(frame)).collect();
        let others = self.others();
        open.extend(others.deep.iter().chain(&others.detached).map(Other::as_open));
        open
    }

    /// Tells the [numbers](Action::number) of the actions that are open, outermost first. For a
    /// signal handler that has interrupted the owning thread: takes no lock, and so leaves out what
    /// is open beyond the frames.
    #[cfg(feature = "sampling")]
    pub(crate) fn tell_open(&self, tell: &mut dyn FnMut(u32)) {
        let top = self.top.load(Ordering::Acquire).cast_const();
        for frame in &self.frames[1..=FAST_DEPTH] {
            if ptr::from_ref(frame) > top {
                break;
            }
            tell(frame.action.load(Ordering::Relaxed) & !RECURSIVE);
        }
    }

    /// The scope in `frame`, if it does not change at this moment.
    fn read(&self, frame: &Frame<R>) -> Option<Open> {
        let started = frame.started.load(Ordering::Acquire);
        let action = frame.action();
        fence(Ordering::Acquire);
        let is_open = self.top.load(Ordering::Acquire).cast_const() >= ptr::from_ref(frame);
        let is_unchanged = frame.started.load(Ordering::Relaxed) == started;
        action.filter(|_| is_open && is_unchanged).map(|action| Open { action, started })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.depth() == 0 && self.others().detached.is_empty()
    }

    /// Takes what the outermost scopes have added up to. Only the owning thread may call this.
    pub(crate) fn take_outermost_time(&self) -> u64 {
        let outermost = &self.frames[0].children;
        let time = outermost.get();
        outermost.set(0);
        time
    }

    /// Counts `time` as spent inside the innermost open scope. Only the owning thread may call this.
    pub(crate) fn add_inner_time(&self, time: u64) {
        match self.others().deep.last_mut() {
            Some(scope) => scope.children = scope.children.wrapping_add(time),
            None => self.frames[self.depth()].children.add(time),
        }
    }
}

/// A place for one more scope; see [`Stack::room`].
pub(crate) struct Room<'stack, R> {
    stack: &'stack Stack<R>,
    parent: &'stack Frame<R>,
}

impl<R> Room<'_, R> {
    /// Whether no scope of `action` is open around the place, as far as one look can tell.
    #[inline(always)]
    pub(crate) fn is_outermost_for(&self, action: Action) -> bool {
        self.parent.actions.get() & bit_of(action.number()) == 0
    }

    /// Opens a scope. The clock is read last, so that none of the work here is counted.
    #[inline(always)]
    pub(crate) fn push(self, action: Action, record: *const R, ticks: impl FnOnce() -> u64) {
        self.push_marked(action, 0, record, ticks);
    }

    #[inline(always)]
    fn push_marked(self, action: Action, mark: u32, record: *const R, ticks: impl FnOnce() -> u64) {
        let actions = self.parent.actions.get() | bit_of(action.number());
        let next = ptr::from_ref(self.parent).cast_mut().wrapping_add(1);
        // SAFETY: the parent is below the last frame that a scope can take, so the one above it is
        // one of the stack's frames.
        let frame = unsafe { &*next };
        // After the lowering of the top in `close`, for a reader that sees what is stored here.
        fence(Ordering::Release);
        frame.action.store(action.number() | mark, Ordering::Relaxed);
        frame.record.store(record.cast_mut(), Ordering::Relaxed);
        frame.children.set(0);
        frame.actions.set(actions);
        frame.started.store(ticks(), Ordering::Release);
        self.stack.top.store(next, Ordering::Release);
    }
}

impl<R> Frame<R> {
    fn action(&self) -> Option<Action> {
        Action::from_number(self.action.load(Ordering::Relaxed) & !RECURSIVE)
    }

    fn is_recursive(&self) -> bool {
        self.action.load(Ordering::Relaxed) & RECURSIVE != 0
    }

    /// The scope as its own thread sees it.
    fn as_other(&self) -> Option<Other<R>> {
        Some(Other {
            action: self.action()?,
            is_recursive: self.is_recursive(),
            started: self.started.load(Ordering::Relaxed),
            children: self.children.get(),
            record: self.record.load(Ordering::Relaxed).cast_const(),
        })
    }
}

impl<R> Other<R> {
    fn close(&self, now: u64, is_detached: bool) -> Closed<R> {
        Closed {
            record: self.record,
            started: self.started,
            elapsed: now.wrapping_sub(self.started),
            children: self.children,
            // An overtaken scope is on its own.
            is_outermost: is_detached || !self.is_recursive,
            is_detached,
        }
    }

    fn as_open(&self) -> Open {
        Open { action: self.action, started: self.started }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
