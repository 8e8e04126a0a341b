//! The open scopes of one thread.
//!
//! The thread itself pushes and pops without locks or read-modify-writes; other threads may look
//! at any time to list what is open.

use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::action::Action;
use crate::clock::Clock;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, Tally, fence};

/// Frames that need no look-up of a chunk. Deeper ones cost a few nanoseconds more.
#[cfg(not(loom))]
const INLINE: usize = 64;
#[cfg(loom)]
const INLINE: usize = 2;
/// Chunk `i` holds `INLINE << i` frames: as deep as any call stack can be.
#[cfg(not(loom))]
const CHUNKS: usize = 32;
#[cfg(loom)]
const CHUNKS: usize = 2;

/// One open scope. `R` is what the owner of the stack records the scope in; it must outlive the
/// stack.
///
/// *Invariant*: only the owning thread writes. `started` is 0 while the other fields change, so a
/// reader that finds the same `started` before and after reading them has read them as they were.
struct Frame<R> {
    started: AtomicU64,
    /// [`Action::number`], 0 in a frame that never was used and in the base of the stack.
    action: AtomicU32,
    /// Ticks spent in scopes directly inside this one that have ended.
    children: Tally,
    record: AtomicPtr<R>,
}

impl<R> Frame<R> {
    fn unused() -> Self {
        Self {
            started: AtomicU64::new(0),
            action: AtomicU32::new(0),
            children: Tally::new(0),
            record: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

/// A scope that has ended.
pub(crate) struct Closed<R> {
    pub(crate) record: *const R,
    pub(crate) started: u64,
    /// From start to stop.
    pub(crate) elapsed: u64,
    /// `elapsed` without the scopes inside.
    pub(crate) own: u64,
    /// The scope had been overtaken: it was opened inside another one that has ended before it.
    pub(crate) is_detached: bool,
}

/// A scope that is still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Open {
    pub(crate) action: Action,
    pub(crate) started: u64,
}

/// An open scope whose surrounding scope has ended: its guard was leaked, or outlived the other.
/// It is no longer what new scopes are inside of.
struct Detached<R> {
    action: Action,
    started: u64,
    children: u64,
    record: *const R,
}

pub(crate) struct Stack<R> {
    /// How many scopes are open; frame 0 is the base, which collects the time of the outermost.
    depth: AtomicUsize,
    inline: [Frame<R>; INLINE],
    deeper: [AtomicPtr<Frame<R>>; CHUNKS],
    detached: Mutex<Vec<Detached<R>>>,
}

// SAFETY: the raw pointers are to records, which are themselves shared between threads (`R: Sync`)
// and which the stack never writes through; frames are atomics.
unsafe impl<R: Sync> Send for Stack<R> {}
// SAFETY: as above. That only one thread pushes and pops is the duty of the caller (see `push`).
unsafe impl<R: Sync> Sync for Stack<R> {}

impl<R> Stack<R> {
    pub(crate) fn new() -> Self {
        Self {
            depth: AtomicUsize::new(0),
            inline: std::array::from_fn(|_| Frame::unused()),
            deeper: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            detached: Mutex::new(Vec::new()),
        }
    }

    /// Opens a scope. Only the owning thread may call this. The clock is read last, so that none
    /// of the work here is counted.
    #[inline(always)]
    pub(crate) fn push(&self, action: Action, record: *const R, clock: &Clock) {
        self.push_at(action, record, || clock.ticks());
    }

    #[inline(always)]
    fn push_at(&self, action: Action, record: *const R, ticks: impl FnOnce() -> u64) {
        let depth = self.depth.load(Ordering::Relaxed) + 1;
        let frame = self.frame_to_write(depth);
        frame.started.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        frame.action.store(action.number(), Ordering::Relaxed);
        frame.record.store(record.cast_mut(), Ordering::Relaxed);
        frame.children.set(0);
        self.depth.store(depth, Ordering::Release);
        frame.started.store(ticks(), Ordering::Release);
    }

    /// Closes the innermost scope if it is of `action`, as guards do; `None` otherwise. Only the
    /// owning thread may call this.
    #[inline(always)]
    pub(crate) fn pop(&self, action: Action, now: u64) -> Option<Closed<R>> {
        let depth = self.depth.load(Ordering::Relaxed);
        let frame = self.frame_to_write(depth);
        // The base frame has no action, so an empty stack ends here too.
        if frame.action.load(Ordering::Relaxed) != action.number() {
            return None;
        }
        let started = frame.started.load(Ordering::Relaxed);
        let elapsed = now.saturating_sub(started);
        let own = elapsed.saturating_sub(frame.children.get());
        let record = frame.record.load(Ordering::Relaxed).cast_const();
        self.depth.store(depth - 1, Ordering::Release);
        self.frame_to_write(depth - 1).children.add(elapsed);
        Some(Closed { record, started, elapsed, own, is_detached: false })
    }

    /// Closes the innermost open scope of `action` that is not the innermost of all: scopes opened
    /// inside it are detached and stay open. `on_detach` is told each one's record. `None` if the
    /// thread has no such scope.
    #[cold]
    #[inline(never)]
    pub(crate) fn pop_out_of_order(
        &self,
        action: Action,
        now: u64,
        on_detach: impl Fn(*const R),
    ) -> Option<Closed<R>> {
        let depth = self.depth.load(Ordering::Relaxed);
        let is_match = |index: &usize| {
            self.frame_to_write(*index).action.load(Ordering::Relaxed) == action.number()
        };
        let Some(found) = (1..=depth).rev().find(is_match) else {
            return self.close_detached(action, now);
        };
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        for index in found + 1..=depth {
            let frame = self.frame_to_write(index);
            let Some(action) = Action::from_number(frame.action.load(Ordering::Relaxed)) else {
                continue;
            };
            let record = frame.record.load(Ordering::Relaxed).cast_const();
            on_detach(record);
            detached.push(Detached {
                action,
                started: frame.started.load(Ordering::Relaxed),
                children: frame.children.get(),
                record,
            });
        }
        drop(detached);
        self.depth.store(found, Ordering::Release);
        self.pop(action, now)
    }

    fn close_detached(&self, action: Action, now: u64) -> Option<Closed<R>> {
        let mut detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        let index = detached.iter().rposition(|scope| scope.action == action)?;
        let scope = detached.remove(index);
        let elapsed = now.saturating_sub(scope.started);
        Some(Closed {
            record: scope.record,
            started: scope.started,
            elapsed,
            own: elapsed.saturating_sub(scope.children),
            is_detached: true,
        })
    }

    /// What is open now, outermost first. Any thread may call this; a scope that is being opened
    /// or closed at this moment may be missing.
    pub(crate) fn open(&self) -> Vec<Open> {
        let depth = self.depth.load(Ordering::Acquire);
        let mut open: Vec<Open> = (1..=depth).filter_map(|index| self.read(index)).collect();
        let detached = self.detached.lock().unwrap_or_else(PoisonError::into_inner);
        open.extend(detached.iter().map(|scope| Open { action: scope.action, started: scope.started }));
        open
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.depth.load(Ordering::Acquire) == 0
            && self.detached.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn read(&self, index: usize) -> Option<Open> {
        let frame = self.frame(index)?;
        let started = frame.started.load(Ordering::Acquire);
        let action = Action::from_number(frame.action.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_unchanged = frame.started.load(Ordering::Relaxed) == started;
        action.filter(|_| started != 0 && is_unchanged).map(|action| Open { action, started })
    }

    /// Takes what the outermost scopes have added up to. Only the owning thread may call this.
    pub(crate) fn take_outermost_time(&self) -> u64 {
        let base = &self.inline[0].children;
        let time = base.get();
        base.set(0);
        time
    }

    /// Counts `time` as spent inside the innermost open scope. Only the owning thread may call this.
    pub(crate) fn add_inner_time(&self, time: u64) {
        self.frame_to_write(self.depth.load(Ordering::Relaxed)).children.add(time);
    }

    #[inline(always)]
    fn frame_to_write(&self, index: usize) -> &Frame<R> {
        match self.inline.get(index) {
            Some(frame) => frame,
            None => self.deep_frame(index),
        }
    }

    /// The frame, made if it is not there yet. Only the owning thread may call this.
    #[cold]
    #[inline(never)]
    fn deep_frame(&self, index: usize) -> &Frame<R> {
        let (chunk, offset) = chunk_of(index);
        let mut frames = self.deeper[chunk].load(Ordering::Relaxed);
        if frames.is_null() {
            let new: Box<[Frame<R>]> = (0..INLINE << chunk).map(|_| Frame::unused()).collect();
            frames = Box::into_raw(new).cast();
            self.deeper[chunk].store(frames, Ordering::Release);
        }
        // SAFETY: a chunk has `INLINE << chunk` frames, `chunk_of` keeps `offset` below that, and
        // chunks are freed only with the stack.
        unsafe { &*frames.add(offset) }
    }

    fn frame(&self, index: usize) -> Option<&Frame<R>> {
        if let Some(frame) = self.inline.get(index) {
            return Some(frame);
        }
        let (chunk, offset) = chunk_of(index);
        let frames = self.deeper.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: as in `deep_frame`; the chunk was published with `Release` after it was made.
        (!frames.is_null()).then(|| unsafe { &*frames.add(offset) })
    }
}

/// Chunk and offset of a frame that is not inline.
fn chunk_of(index: usize) -> (usize, usize) {
    let chunk = (index / INLINE).ilog2() as usize;
    (chunk, index - (INLINE << chunk))
}

impl<R> Drop for Stack<R> {
    fn drop(&mut self) {
        for (chunk, frames) in self.deeper.iter().enumerate() {
            let frames = frames.load(Ordering::Relaxed);
            if !frames.is_null() {
                let slice = ptr::slice_from_raw_parts_mut(frames, INLINE << chunk);
                // SAFETY: made by `Box::into_raw` from a boxed slice of this length in
                // `deep_frame`, and nobody else holds the stack any more.
                drop(unsafe { Box::from_raw(slice) });
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn stack_and_actions() -> (Stack<u8>, Action, Action, Action) {
        (Stack::new(), Action::new("stack-a"), Action::new("stack-b"), Action::new("stack-c"))
    }

    #[test]
    fn own_time_is_what_inner_scopes_leave() {
        let (stack, a, b, _) = stack_and_actions();
        stack.push_at(a, ptr::null(), || 10);
        stack.push_at(b, ptr::null(), || 20);
        assert_eq!(stack.pop(b, 50).map(|closed| (closed.elapsed, closed.own)), Some((30, 30)));
        assert_eq!(stack.pop(a, 100).map(|closed| (closed.elapsed, closed.own)), Some((90, 60)));
        assert_eq!(stack.take_outermost_time(), 90);
        assert!(stack.is_empty());
    }

    #[test]
    fn chunks_cover_every_depth_once() {
        let mut next = (0, 0);
        for index in INLINE..INLINE * 70 {
            assert_eq!(chunk_of(index), next, "frame {index}");
            next.1 += 1;
            if next.1 == INLINE << next.0 {
                next = (next.0 + 1, 0);
            }
        }
    }

    #[test]
    fn very_deep_stacks_come_back_to_empty() {
        let (stack, a, ..) = stack_and_actions();
        for tick in 1..=100_000 {
            stack.push_at(a, ptr::null(), || tick);
        }
        assert_eq!(stack.open().len(), 100_000);
        for tick in (1..=100_000).rev() {
            let closed = stack.pop(a, 100_001).expect("open");
            assert_eq!((closed.started, closed.own), (tick, 1));
        }
        assert!(stack.is_empty());
    }

    #[test]
    fn a_scope_that_outlives_the_one_around_it_is_timed_all_the_same() {
        let (stack, a, b, c) = stack_and_actions();
        stack.push_at(a, ptr::null(), || 1);
        stack.push_at(b, ptr::null(), || 2);
        assert!(stack.pop(a, 5).is_none(), "not the innermost");
        let closed = stack.pop_out_of_order(a, 5, |_| ()).expect("open");
        assert_eq!(closed.elapsed, 4);
        stack.push_at(c, ptr::null(), || 6);
        assert_eq!(stack.open().len(), 2, "b is detached, c is on the stack");
        assert_eq!(stack.pop(c, 7).map(|closed| closed.elapsed), Some(1));
        let late = stack.pop_out_of_order(b, 12, |_| ()).expect("still open");
        assert!(late.is_detached);
        assert_eq!(late.elapsed, 10);
        assert!(stack.pop_out_of_order(b, 13, |_| ()).is_none(), "never started");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// A reader never sees a mixture of two scopes that used the same frame one after the other.
    #[test]
    fn a_reader_sees_whole_frames() {
        let (a, b) = (Action::new("loom-a"), Action::new("loom-b"));
        loom::model(move || {
            let stack: Arc<Stack<u8>> = Arc::new(Stack::new());
            let writer = {
                let stack = stack.clone();
                thread::spawn(move || {
                    stack.push_at(a, ptr::null(), || 1);
                    assert!(stack.pop(a, 2).is_some());
                    stack.push_at(b, ptr::null(), || 3);
                })
            };
            for open in stack.open() {
                let expected = if open.action == a { 1 } else { 3 };
                assert_eq!(open.started, expected, "{:?}", open.action);
            }
            writer.join().expect("writer");
            assert_eq!(stack.open(), [Open { action: b, started: 3 }]);
        });
    }

    /// Frames beyond the inline ones are published before they are counted.
    #[test]
    fn a_reader_may_look_while_the_stack_grows() {
        let a = Action::new("loom-deep");
        loom::model(move || {
            let stack: Arc<Stack<u8>> = Arc::new(Stack::new());
            let writer = {
                let stack = stack.clone();
                thread::spawn(move || {
                    for tick in 1..=2 {
                        stack.push_at(a, ptr::null(), || tick);
                    }
                })
            };
            assert!(stack.open().len() <= 2);
            writer.join().expect("writer");
            assert_eq!(stack.open().len(), 2);
        });
    }
}
