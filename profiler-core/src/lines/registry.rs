//! All functions whose lines were ever run, with what threads recorded of them.

use std::cell::Cell;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::DeclaredFunction;
use super::block::Block;
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::uncounted;

/// A function as this crate knows it; lives for ever, as its site does.
#[derive(Debug)]
pub(super) struct Function {
    pub declared: DeclaredFunction,
    /// Its place in the tables of threads.
    pub number: usize,
    blocks: Mutex<Blocks>,
}

#[derive(Debug, Default)]
struct Blocks {
    all: Vec<&'static Block>,
    /// Of threads that have ended: the next thread goes on with their tallies, so that there are
    /// never more blocks than threads were running at once.
    free: Vec<&'static Block>,
}

static FUNCTIONS: Mutex<Vec<&'static Function>> = Mutex::new(Vec::new());
/// Functions that are shown even if they never ran.
static DECLARED: Mutex<Vec<DeclaredFunction>> = Mutex::new(Vec::new());
static LOST: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static IS_REGISTERING: Cell<bool> = const { Cell::new(false) };
}

/// Stores in `place` what is known of a function from here on. `None` if it is a function of the
/// allocator that this has asked for space.
pub(super) fn register(
    place: &AtomicPtr<()>,
    declared: impl FnOnce() -> DeclaredFunction,
) -> Option<&'static Function> {
    if IS_REGISTERING.replace(true) {
        return None;
    }
    let function = uncounted(|| {
        super::block::now(); // prepares the clock, which may ask for space, too
        let mut functions = lock(&FUNCTIONS);
        // SAFETY: null, or what another thread has stored below.
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
    /// A block that no thread has.
    pub fn take_block(&self) -> &'static Block {
        let mut blocks = lock(&self.blocks);
        if let Some(block) = blocks.free.pop() {
            return block;
        }
        let block: &'static Block = Box::leak(Box::new(Block::new(self.declared.points.len())));
        blocks.all.push(block);
        block
    }

    /// The thread that had `block` ends.
    pub fn give_back(&self, block: &'static Block) {
        block.abandon();
        lock(&self.blocks).free.push(block);
    }

    pub fn blocks(&self) -> Vec<&'static Block> {
        lock(&self.blocks).all.clone()
    }
}

/// In a forked child: nothing was recorded yet, and nothing runs but what `is_own` of the thread
/// that is there. Whether any function was ever called.
pub(super) fn begin_in_child(is_own: impl Fn(&Block) -> bool) -> bool {
    LOST.store(0, Ordering::Relaxed);
    // Both locks are free: no fork comes while somebody has them.
    let Ok(functions) = FUNCTIONS.try_lock() else { return false };
    for function in functions.iter() {
        let Ok(blocks) = function.blocks.try_lock() else { continue };
        blocks.all.iter().for_each(|block| block.restart(is_own(block)));
    }
    !functions.is_empty()
}

/// A call could not be recorded: its thread is being torn down.
pub(super) fn count_lost() {
    LOST.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn lost() -> u64 {
    LOST.load(Ordering::Relaxed)
}
