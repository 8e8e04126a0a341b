//! Registry of all functions with executed lines, and of their data on each thread.

use std::cell::Cell;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::DeclaredFunction;
use super::block::Block;
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::uncounted;

/// Registered function. It is never freed, like its site.
#[derive(Debug)]
pub(super) struct Function {
    pub declared: DeclaredFunction,
    /// Index in the tables of threads.
    pub number: usize,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    all: Vec<&'static Block>,
    /// Blocks of threads that have ended. A new thread takes over one of them and adds to its
    /// tallies, so there are never more blocks than threads that ran at the same time.
    free: Vec<&'static Block>,
}

static FUNCTIONS: Mutex<Vec<&'static Function>> = Mutex::new(Vec::new());
/// Functions that reports show even if they never run.
static DECLARED: Mutex<Vec<DeclaredFunction>> = Mutex::new(Vec::new());
static LOST: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static IS_REGISTERING: Cell<bool> = const { Cell::new(false) };
}

/// Registers a function once and stores the result in `place`. Returns `None` for a function of the
/// allocator that is called during the registration itself.
pub(super) fn register(
    place: &AtomicPtr<()>,
    declared: impl FnOnce() -> DeclaredFunction,
) -> Option<&'static Function> {
    if IS_REGISTERING.replace(true) {
        return None;
    }
    let function = uncounted(|| {
        super::block::now(); // prepares the clock, which may also allocate
        let mut functions = lock(&FUNCTIONS);
        // SAFETY: the pointer is null or refers to a leaked `Function` that another thread stored
        // with `Release` below.
        let known = unsafe { place.load(Ordering::Acquire).cast::<Function>().as_ref() };
        if let Some(function) = known {
            return function;
        }
        let number = functions.len();
        let function = Function { declared: declared(), number, blocks: Mutex::default() };
        let function: &'static Function = Box::leak(Box::new(function));
        functions.push(function);
        place.store(std::ptr::from_ref(function).cast_mut().cast(), Ordering::Release);
        function
    });
    IS_REGISTERING.set(false);
    Some(function)
}

pub(super) fn declare(function: impl FnOnce() -> DeclaredFunction) {
    uncounted(|| lock(&DECLARED).push(function()));
}

pub(super) fn declared() -> Vec<DeclaredFunction> {
    lock(&DECLARED).clone()
}

pub(super) fn all() -> Vec<&'static Function> {
    lock(&FUNCTIONS).clone()
}

impl Function {
    /// Returns a block that is not used by any thread.
    pub fn take_block(&self) -> &'static Block {
        let mut blocks = lock(&self.blocks);
        if let Some(block) = blocks.free.pop() {
            return block;
        }
        let block: &'static Block = Box::leak(Box::new(Block::new(self.declared.points.len())));
        blocks.all.push(block);
        block
    }

    /// Frees `block` for other threads because its thread has ended.
    pub fn give_back(&self, block: &'static Block) {
        block.abandon();
        lock(&self.blocks).free.push(block);
    }

    pub fn blocks(&self) -> Vec<&'static Block> {
        lock(&self.blocks).all.clone()
    }
}

/// Resets all blocks in a forked child. Only blocks for which `is_own` returns `true` continue to
/// run. Returns `true` if any function was ever called.
pub(super) fn begin_in_child(is_own: impl Fn(&Block) -> bool) -> bool {
    LOST.store(0, Ordering::Relaxed);
    // Both locks are free, because a fork waits until their holders release them.
    let Ok(functions) = FUNCTIONS.try_lock() else { return false };
    for function in functions.iter() {
        let Ok(blocks) = function.blocks.try_lock() else { continue };
        blocks.all.iter().for_each(|block| block.restart(is_own(block)));
    }
    !functions.is_empty()
}

/// Counts a call that could not be recorded because its thread is being torn down.
pub(super) fn count_lost() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}
