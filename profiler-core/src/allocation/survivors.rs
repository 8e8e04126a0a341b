//! What a piece of work allocates and leaves behind.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::switch;
use super::tracker::LEAST_BYTES;
use mlprof_events::uncounted;

/// A block of the host's memory.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptBlock {
    /// Where it begins.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
}

thread_local! {
    /// How many works are followed on this thread. Without a destructor, as all that an allocator looks
    /// at must be; [`BLOCKS`] is touched only where this is not 0.
    static FOLLOWED: Cell<usize> = const { Cell::new(0) };
    /// What each of them has allocated, the innermost last.
    static BLOCKS: RefCell<Vec<Vec<KeptBlock>>> = const { RefCell::new(Vec::new()) };
}

/// How many works are followed in the process.
static WORKS: AtomicUsize = AtomicUsize::new(0);

/// Calls `work`, and tells which blocks of [`LEAST_BYTES`] and more the calling thread has allocated
/// meanwhile that are alive at the end. None without a [tracking allocator](super::is_installed), and
/// none of what other threads allocate, or free of it.
///
/// For hooks that make something whose memory they label later: an optimizer's state is allocated when
/// the optimizer is made, long before anybody records.
///
/// *Cost*: some 20 ns per allocation and free on all threads while it lasts; nothing before and after.
pub fn kept_by<R>(work: impl FnOnce() -> R) -> (R, Vec<KeptBlock>) {
    if !super::is_installed() {
        return (work(), Vec::new());
    }
    let followed = Followed::begin();
    let result = work();
    (result, followed.end())
}

/// Takes back what [`begin`](Self::begin) did also when the work panics.
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

/// The calling thread allocated a block.
pub(super) fn allocated(address: usize, bytes: usize) {
    if bytes < LEAST_BYTES || FOLLOWED.get() == 0 {
        return;
    }
    let block = KeptBlock { address: address as u64, bytes: bytes as u64 };
    uncounted(|| with_blocks(|blocks| blocks.iter_mut().for_each(|of_one| of_one.push(block))));
}

/// The calling thread is about to free a block.
pub(super) fn freed(address: usize) {
    if FOLLOWED.get() == 0 {
        return;
    }
    with_blocks(|blocks| {
        for of_one in blocks {
            // Nearly always one of the last.
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
