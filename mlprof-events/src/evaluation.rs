//! Counts of module outputs during evaluation, and of those that are kept for a backward pass that
//! never runs.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

thread_local! {
    /// Number of evaluations that this thread is currently inside.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
}

/// Drop guard that marks the thread as evaluating. Trainers hold one around each batch of a
/// validation, test or prediction.
#[derive(Debug)]
pub struct Evaluation {
    of_one_thread: PhantomData<*const ()>,
}

impl Evaluation {
    /// Begins an evaluation on this thread, which ends when the guard is dropped.
    pub fn begin() -> Self {
        let _ = RUNNING.try_with(|running| running.set(running.get() + 1));
        Self { of_one_thread: PhantomData }
    }

    /// Returns `true` if this thread is evaluating. *Cost*: a thread-local read.
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

/// Numbers of tensors that modules returned during evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct EvaluatedOutputs {
    /// Total number of returned tensors.
    pub outputs: u64,
    /// Number of returned tensors that are part of a graph for a backward pass. Everything that
    /// such a tensor was computed from stays in memory as long as the tensor.
    pub remembered: u64,
}

/// Counter of module outputs during evaluation, for one framework.
#[derive(Debug)]
pub struct EvaluatedOutputsCounter {
    outputs: AtomicU64,
    remembered: AtomicU64,
}

impl EvaluatedOutputsCounter {
    /// Creates a counter with both numbers at 0.
    #[expect(clippy::new_without_default, reason = "it is of a static")]
    pub const fn new() -> Self {
        Self { outputs: AtomicU64::new(0), remembered: AtomicU64::new(0) }
    }

    /// Counts a tensor that a module returned during an evaluation. *Cost*: one or two atomic
    /// additions.
    pub fn count(&self, is_remembered: bool) {
        self.outputs.fetch_add(1, Ordering::Relaxed);
        if is_remembered {
            self.remembered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the numbers counted so far in the process, or `None` if no output was counted.
    pub fn counted(&self) -> Option<EvaluatedOutputs> {
        // Loading `remembered` first keeps it from exceeding `outputs`.
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
    fn outputs_with_a_graph_are_counted_separately() {
        let counter = EvaluatedOutputsCounter::new();
        assert_eq!(counter.counted(), None);
        [true, false, true].into_iter().for_each(|is_remembered| counter.count(is_remembered));
        assert_eq!(counter.counted(), Some(EvaluatedOutputs { outputs: 3, remembered: 2 }));
    }
}
