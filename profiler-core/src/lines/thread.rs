//! Blocks to which a thread writes.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::Block;
use super::registry::Function;
use crate::forked_child;
use mlprof_events::uncounted;

/// Blocks of one thread, indexed by function number.
#[derive(Debug)]
struct Thread {
    /// Thread number, unique in the process and never 0.
    number: u64,
    blocks: RefCell<Blocks>,
    /// In a forked child, the blocks from before the fork, until their functions are called again.
    aside: RefCell<Blocks>,
}

type Blocks = Vec<Option<(&'static Function, &'static Block)>>;

impl Thread {
    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { number, blocks: RefCell::default(), aside: RefCell::default() }
    }

    #[cold]
    fn attach(&self, function: &'static Function) -> Option<&'static Block> {
        uncounted(|| {
            forked_child::catch_up();
            // `blocks` is already borrowed if this call comes from the program's allocator, during
            // the allocation below.
            let mut blocks = self.blocks.try_borrow_mut().ok()?;
            let kept =
                self.aside.try_borrow_mut().ok()?.get_mut(function.number).and_then(Option::take);
            let block = kept.map_or_else(|| function.take_block(), |(_, block)| block);
            if blocks.len() <= function.number {
                blocks.resize(function.number + 1, None);
            }
            blocks[function.number] = Some((function, block));
            Some(block)
        })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let blocks = std::mem::take(self.blocks.get_mut());
        let aside = std::mem::take(self.aside.get_mut());
        uncounted(|| {
            for (function, block) in blocks.into_iter().chain(aside).flatten() {
                function.give_back(block);
            }
        });
    }
}

thread_local! {
    static THREAD: Thread = Thread::new();
}

/// Returns the number of the calling thread, or `None` while it is torn down.
pub(super) fn number() -> Option<u64> {
    THREAD.try_with(|thread| thread.number).ok()
}

/// Returns `true` if `block` belongs to the calling thread.
pub(super) fn is_own(block: &Block) -> bool {
    let is_in = |thread: &Thread| {
        let blocks = thread.blocks.try_borrow().ok()?;
        Some(blocks.iter().flatten().any(|(_, own)| std::ptr::eq(*own, block)))
    };
    THREAD.try_with(is_in).ok().flatten().unwrap_or(false)
}

/// Makes the next call of each function on this thread take the slow path once. It runs in a forked
/// child and does not allocate.
pub(super) fn set_aside() {
    let set = |thread: &Thread| {
        if let (Ok(mut blocks), Ok(mut aside)) =
            (thread.blocks.try_borrow_mut(), thread.aside.try_borrow_mut())
            && aside.is_empty()
        {
            std::mem::swap(&mut *blocks, &mut *aside);
        }
    };
    // A thread that is ending has no blocks.
    let _ = THREAD.try_with(set);
}

/// Returns the calling thread's block of `function`, or `None` while the thread is torn down.
#[inline]
pub(super) fn block(function: &'static Function) -> Option<&'static Block> {
    let found = THREAD.try_with(|thread| {
        let known = {
            let blocks = thread.blocks.try_borrow().ok()?;
            blocks.get(function.number).copied().flatten()
        };
        known.map(|(_, block)| block).or_else(|| thread.attach(function))
    });
    found.ok().flatten()
}
