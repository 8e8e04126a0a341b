//! Blocks that a piece of work allocates and keeps.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::switch;
use super::tracker::LEAST_BYTES;
use mlprof_events::uncounted;

/// A block of host memory.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBlock {
    /// Start address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}

thread_local! {
    /// Number of calls of `kept_by` running on this thread. The allocator reads it, so it must not
    /// have a destructor. [`BLOCKS`] is used only while this is not 0.
    static FOLLOWED: Cell<usize> = const { Cell::new(0) };
    /// Blocks allocated by each of these calls, innermost last.
    static BLOCKS: RefCell<Vec<Vec<KeptBlock>>> = const { RefCell::new(Vec::new()) };
}

/// Number of calls of `kept_by` running in the process.
static WORKS: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` and returns the blocks of at least [`LEAST_BYTES`] that the calling thread allocated
/// during it and that are alive at the end. The list is empty without a [tracking
/// allocator](super::is_installed). Allocations and frees of other threads are not considered.
///
/// Hooks use it to label an object's memory later. An optimizer's state, for example, is allocated
/// when the optimizer is created, long before recording starts.
///
/// *Cost*: about 20 ns per allocation and free on all threads while it runs, and none before and
/// after.
pub fn kept_by<R>(work: impl FnOnce() -> R) -> (R, Vec<KeptBlock>) {
    if !super::is_installed() {
        return (work(), Vec::new());
    }
    let followed = Followed::begin();
    let result = work();
    (result, followed.end())
}

/// Guard that undoes [`begin`](Self::begin), even if the work panics.
struct Followed;

impl Followed {
    fn begin() -> Self {
        uncounted(|| BLOCKS.with(|blocks| blocks.borrow_mut().push(Vec::new())));
        FOLLOWED.set(FOLLOWED.get() + 1);
        if WORKS.fetch_add(1, Ordering::AcqRel) == 0 {
            switch::set(switch::KEPT, true);
        }
        Self
    }

    fn end(self) -> Vec<KeptBlock> {
        BLOCKS.with(|blocks| blocks.borrow_mut().last_mut().map(std::mem::take)).unwrap_or_default()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        if WORKS.fetch_sub(1, Ordering::AcqRel) == 1 {
            switch::set(switch::KEPT, false);
            // Another thread may have begun in between.
            if WORKS.load(Ordering::Acquire) > 0 {
                switch::set(switch::KEPT, true);
            }
        }
        FOLLOWED.set(FOLLOWED.get() - 1);
        uncounted(|| drop(BLOCKS.with(|blocks| blocks.borrow_mut().pop())));
    }
}

/// Adds a block that the calling thread allocated.
pub(super) fn allocated(address: usize, bytes: usize) {
    if bytes < LEAST_BYTES || FOLLOWED.get() == 0 {
        return;
    }
    let block = KeptBlock { address: address as u64, bytes: bytes as u64 };
    uncounted(|| with_blocks(|blocks| blocks.iter_mut().for_each(|of_one| of_one.push(block))));
}

/// Removes a block that the calling thread is about to free.
pub(super) fn freed(address: usize) {
    if FOLLOWED.get() == 0 {
        return;
    }
    with_blocks(|blocks| {
        for of_one in blocks {
            // It is nearly always one of the last blocks.
            if let Some(freed) = of_one.iter().rposition(|block| block.address == address as u64) {
                of_one.swap_remove(freed);
            }
        }
    });
}

fn with_blocks(work: impl FnOnce(&mut Vec<Vec<KeptBlock>>)) {
    let _ = BLOCKS.try_with(|blocks| {
        if let Ok(mut blocks) = blocks.try_borrow_mut() {
            work(&mut blocks);
        }
    });
}
