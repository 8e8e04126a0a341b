//! Which blocks a thread writes to.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::block::Block;
use super::registry::Function;
use profiler_events::uncounted;

/// The blocks of one thread, by the number of their function.
#[derive(Debug)]
struct Thread {
    /// Never used twice in a process, and not 0.
    number: u64,
    blocks: RefCell<Vec<Option<(&'static Function, &'static Block)>>>,
}

impl Thread {
    fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { number, blocks: RefCell::default() }
    }

    #[cold]
    fn attach(&self, function: &'static Function) -> Option<&'static Block> {
        uncounted(|| {
            // Borrowed already: called by the allocator that is asked for the space, below.
            let mut blocks = self.blocks.try_borrow_mut().ok()?;
            let block = function.take_block();
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
        uncounted(|| {
            for (function, block) in blocks.into_iter().flatten() {
                function.give_back(block);
            }
        });
    }
}

thread_local! {
    static THREAD: Thread = Thread::new();
}

/// This thread's number; `None` while it is being torn down.
pub(super) fn number() -> Option<u64> {
    THREAD.try_with(|thread| thread.number).ok()
}

/// This thread's block of `function`; `None` while it is being torn down.
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
