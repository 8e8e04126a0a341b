//! The frames that a stack is made of, in chunks that never move.

use std::ptr::{self, NonNull};

use crate::recorder::mapped::Mapped;
use mlprof_events::Action;
use mlprof_events::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Tally};

/// How many scopes a chunk has frames for.
#[cfg(not(any(loom, miri)))]
pub(super) const CHUNK: usize = 127;
/// So that few scopes are in several.
#[cfg(miri)]
pub(super) const CHUNK: usize = 15;
#[cfg(loom)]
pub(super) const CHUNK: usize = 1;

/// One open scope. `R` is what the owner of the stack records the scope in; it must outlive the
/// stack.
///
/// *Invariant*: only the owning thread writes. It changes the other fields while the frame is above
/// the stack's top, and stores `started` before it raises the top over it. So a reader that finds
/// the same `started` before and after reading the others, and the top not below the frame after
/// reading them, has read them as they were.
#[repr(C, align(32))]
pub(super) struct Frame<R> {
    pub(super) started: AtomicU64,
    /// Ticks spent in scopes directly inside this one that have ended.
    pub(super) children: Tally,
    pub(super) record: AtomicPtr<R>,
    /// [`Action::number`], with [`RECURSIVE`] or without; 0 in the first frame of a chunk, and in one
    /// that never was used.
    pub(super) action: AtomicU32,
}

/// Marks a scope inside another one of the same action; the mark keeps the fast path from taking it
/// for one to be counted in full.
pub(super) const RECURSIVE: u32 = 1 << 31;

impl<R> Frame<R> {
    fn unused() -> Self {
        Self {
            started: AtomicU64::new(0),
            children: Tally::new(0),
            record: AtomicPtr::new(ptr::null_mut()),
            action: AtomicU32::new(0),
        }
    }

    pub(super) fn action(&self) -> Option<Action> {
        Action::from_number(self.action.load(Ordering::Relaxed) & !RECURSIVE)
    }

    pub(super) fn is_recursive(&self) -> bool {
        self.action.load(Ordering::Relaxed) & RECURSIVE != 0
    }
}

/// Frames beside each other. The first is no scope: it collects the time of the scopes above it, for
/// whom they are inside of.
// Whole pairs of cache lines: nothing that another thread writes lies beside it.
#[repr(C, align(128))]
struct Frames<R>([Frame<R>; CHUNK + 1]);

/// Owns [`CHUNK`] frames and the one before them.
///
/// *Invariant*: `frames` are what `owner` owns; they are freed only with the chunk. All pointers to frames
/// are derived from this one, which is good for all of them.
pub(super) struct Chunk<R> {
    frames: NonNull<Frames<R>>,
    owner: FramesOwner<R>,
}

enum FramesOwner<R> {
    /// As a box has them.
    Allocator,
    #[expect(dead_code, reason = "is dropped")]
    Pages(Mapped<Frames<R>>),
}

impl<R> Chunk<R> {
    /// The first one of a stack, whose owner comes from the program's allocator, too.
    pub(super) fn first() -> Self {
        let frames = Box::new(Frames(std::array::from_fn(|_| Frame::unused())));
        Self { frames: NonNull::from(Box::leak(frames)), owner: FramesOwner::Allocator }
    }

    /// One for scopes that are deeper, which the program's allocator has no part in: they may be opened in
    /// a signal handler that has interrupted it. `None` if the system has no memory for it.
    pub(super) fn further() -> Option<Self> {
        let write = |frames: NonNull<Frames<R>>| {
            for number in 0..=CHUNK {
                // SAFETY: one of the frames of the new ones, which are nothing else.
                unsafe { frames.cast::<Frame<R>>().add(number).write(Frame::unused()) };
            }
        };
        // SAFETY: each of the frames is written.
        let mapped = unsafe { Mapped::written_by(write) }?;
        Some(Self { frames: mapped.place(), owner: FramesOwner::Pages(mapped) })
    }

    /// The frame before those of scopes.
    pub(super) fn base(&self) -> *mut Frame<R> {
        self.frames.as_ptr().cast()
    }

    /// The last frame.
    pub(super) fn last(&self) -> *mut Frame<R> {
        self.base().wrapping_add(CHUNK)
    }

    /// The frames of scopes.
    pub(super) fn scopes(&self) -> &[Frame<R>] {
        // SAFETY: by the invariant; frames are only shared, what is written in them is atomic.
        &unsafe { self.frames.as_ref() }.0[1..]
    }

    /// How many of [`scopes`](Self::scopes) are open if `top` is the innermost.
    pub(super) fn open_below(&self, top: *const Frame<R>) -> usize {
        let bytes = top.addr().wrapping_sub(self.base().addr());
        (bytes / size_of::<Frame<R>>()).min(CHUNK)
    }
}

impl<R> Drop for Chunk<R> {
    fn drop(&mut self) {
        if let FramesOwner::Allocator = self.owner {
            // SAFETY: made from a box in `first`, and nobody else frees it.
            drop(unsafe { Box::from_raw(self.frames.as_ptr()) });
        }
    }
}
