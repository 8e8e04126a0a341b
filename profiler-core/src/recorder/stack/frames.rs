//! Frames of a stack, in chunks that never move.

use std::ptr::{self, NonNull};

use crate::recorder::mapped::Mapped;
use mlprof_events::Action;
use mlprof_events::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, Tally};

/// Number of scopes per chunk.
#[cfg(not(any(loom, miri)))]
pub(super) const CHUNK: usize = 127;
/// Small chunks let Miri cover several chunks with few scopes.
#[cfg(miri)]
pub(super) const CHUNK: usize = 15;
#[cfg(loom)]
pub(super) const CHUNK: usize = 1;

/// Frame of one open scope. `R` is the record of the scope and must outlive the stack.
///
/// *Invariant*: only the owning thread writes. It changes the other fields while the frame is above
/// the stack's top. It stores `started` before it raises the top to the frame. A reader loads
/// `started`, then the other fields, and finally the top and `started` again. Its values are
/// consistent if `started` is unchanged and the top is not below the frame.
#[repr(C, align(32))]
pub(super) struct Frame<R> {
    pub(super) started: AtomicU64,
    /// Ticks spent in ended scopes directly inside this one.
    pub(super) children: Tally,
    pub(super) record: AtomicPtr<R>,
    /// [`Action::number`], possibly with [`RECURSIVE`]. 0 in the base frame of a chunk and in
    /// frames that were never used.
    pub(super) action: AtomicU32,
}

/// Mark of a scope inside another one of the same action. It prevents the fast path from counting
/// the scope in full.
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

/// Contiguous frames of a chunk. The first is the base frame, which is not a scope. It accumulates
/// the time of the outermost scopes in the chunk.
// Whole pairs of cache lines, so that no other thread writes to the same lines.
#[repr(C, align(128))]
struct Frames<R>([Frame<R>; CHUNK + 1]);

/// Owner of a base frame and [`CHUNK`] scope frames.
///
/// *Invariant*: `frames` points to the frames that `owner` owns, and they are freed only with the
/// chunk. All frame pointers are derived from `frames`, so their provenance covers every frame.
pub(super) struct Chunk<R> {
    frames: NonNull<Frames<R>>,
    owner: FramesOwner<R>,
}

enum FramesOwner<R> {
    /// The frames come from a leaked box.
    Allocator,
    #[expect(dead_code, reason = "is dropped")]
    Pages(Mapped<Frames<R>>),
}

impl<R> Chunk<R> {
    /// Makes the first chunk of a stack, in memory of the program's allocator.
    pub(super) fn first() -> Self {
        let frames = Box::new(Frames(std::array::from_fn(|_| Frame::unused())));
        Self { frames: NonNull::from(Box::leak(frames)), owner: FramesOwner::Allocator }
    }

    /// Makes a chunk for deeper scopes in mapped memory. It avoids the program's allocator, because
    /// a signal handler that interrupted the allocator may open scopes. Returns `None` if the
    /// system has no memory.
    pub(super) fn further() -> Option<Self> {
        let write = |frames: NonNull<Frames<R>>| {
            for number in 0..=CHUNK {
                // SAFETY: `number` is at most `CHUNK`, so the frame is inside the new mapping,
                // which is aligned and has no other user.
                unsafe { frames.cast::<Frame<R>>().add(number).write(Frame::unused()) };
            }
        };
        // SAFETY: `write` initialises all frames.
        let mapped = unsafe { Mapped::written_by(write) }?;
        Some(Self { frames: mapped.place(), owner: FramesOwner::Pages(mapped) })
    }

    /// Returns the base frame, which precedes the scope frames.
    pub(super) fn base(&self) -> *mut Frame<R> {
        self.frames.as_ptr().cast()
    }

    /// Returns the last frame.
    pub(super) fn last(&self) -> *mut Frame<R> {
        self.base().wrapping_add(CHUNK)
    }

    /// Returns the scope frames.
    pub(super) fn scopes(&self) -> &[Frame<R>] {
        // SAFETY: by the invariant, `frames` points to initialised frames that live as long as the
        // chunk. Only shared references to them exist, and all writes are atomic.
        &unsafe { self.frames.as_ref() }.0[1..]
    }

    /// Returns how many of [`scopes`](Self::scopes) are open if `top` is the innermost.
    pub(super) fn open_below(&self, top: *const Frame<R>) -> usize {
        let bytes = top.addr().wrapping_sub(self.base().addr());
        (bytes / size_of::<Frame<R>>()).min(CHUNK)
    }
}

impl<R> Drop for Chunk<R> {
    fn drop(&mut self) {
        if let FramesOwner::Allocator = self.owner {
            // SAFETY: `first` leaked the frames from a box. They are freed only here.
            drop(unsafe { Box::from_raw(self.frames.as_ptr()) });
        }
    }
}
