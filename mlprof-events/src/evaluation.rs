//! What modules return while a network is evaluated, and how much of it is remembered for a backward pass that never comes.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

thread_local! {
    /// So many evaluations this thread is in.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// An evaluation of this thread, until it is dropped: what trainers hold around each batch of a validation, test or prediction.
#[derive(Debug)]
pub struct Evaluation {
    of_one_thread: PhantomData<*const ()>,
}

impl Evaluation {
    /// It begins.
    pub fn begin() -> Self {
        let _ = RUNNING.try_with(|running| running.set(running.get() + 1));
        Self { of_one_thread: PhantomData }
    }

    /// Whether this thread evaluates. *Cost*: a thread-local read.
    #[inline]
    pub fn is_running() -> bool {
        RUNNING.try_with(|running| running.get() > 0).unwrap_or(false)
    }
}

impl Drop for Evaluation {
    fn drop(&mut self) {
        let _ = RUNNING.try_with(|running| running.set(running.get() - 1));
    }
}

/// What modules have returned while the network was evaluated, by how often they did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EvaluatedOutputs {
    /// All tensors that they have returned.
    pub outputs: u64,
    /// Those through which a backward pass could go: everything that they were computed from is kept as long as they are.
    pub remembered: u64,
}

/// Counts them for one framework.
#[derive(Debug)]
pub struct EvaluatedOutputsCounter {
    outputs: AtomicU64,
    remembered: AtomicU64,
}

impl EvaluatedOutputsCounter {
    /// None so far.
    #[expect(clippy::new_without_default, reason = "it is of a static")]
    pub const fn new() -> Self {
        Self { outputs: AtomicU64::new(0), remembered: AtomicU64::new(0) }
    }

    /// A module has returned a tensor, in an evaluation. *Cost*: an atomic addition or two.
    pub fn count(&self, is_remembered: bool) {
        self.outputs.fetch_add(1, Ordering::Relaxed);
        if is_remembered {
            self.remembered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Those of the process so far; `None` if there are none.
    pub fn counted(&self) -> Option<EvaluatedOutputs> {
        // In this order, so that never more are remembered than there are.
        let remembered = self.remembered.load(Ordering::Acquire);
        let outputs = self.outputs.load(Ordering::Acquire).max(remembered);
        (outputs > 0).then_some(EvaluatedOutputs { outputs, remembered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_evaluates_until_all_of_its_evaluations_are_over() {
        assert!(!Evaluation::is_running());
        let outer = Evaluation::begin();
        drop(Evaluation::begin());
        assert!(Evaluation::is_running());
        let other = std::thread::spawn(Evaluation::is_running).join();
        assert!(!other.expect("no panic"), "another thread does not");
        drop(outer);
        assert!(!Evaluation::is_running());
    }

    #[test]
    fn what_is_remembered_is_counted_beside_the_rest() {
        let counter = EvaluatedOutputsCounter::new();
        assert_eq!(counter.counted(), None);
        [true, false, true].into_iter().for_each(|is_remembered| counter.count(is_remembered));
        assert_eq!(counter.counted(), Some(EvaluatedOutputs { outputs: 3, remembered: 2 }));
    }
}
