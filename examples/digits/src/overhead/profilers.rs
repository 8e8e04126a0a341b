//! The profilers that are compared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlprof_core::{Action, Inner, Interest, NeverStarted, Profiler};

/// A profiler that requests all actions and records none. The remaining cost is that of the hooks.
pub(super) struct Nothing;

impl Profiler for Nothing {
    fn start(&self, _action: Action) {}
    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }
    fn describe(&self) {}
}

/// A profiler without its report.
pub(super) struct Silent<P>(pub(super) P);

impl<P: Profiler> Profiler for Silent<P> {
    fn start(&self, action: Action) {
        self.0.start(action);
    }
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.0.stop(action)
    }
    fn inner(&self) -> Inner<'_> {
        Inner::of(&self.0)
    }
    fn describe(&self) {
        self.teardown(None);
    }
}

/// Counts the scopes of steps.
pub(super) struct Counting {
    step_begins: Action,
    scopes: AtomicU64,
    /// Number of steps that have begun, and number of scopes before the first and before the last
    /// step.
    steps: AtomicU64,
    before_first: AtomicU64,
    before_last: AtomicU64,
}

impl Counting {
    pub(super) fn new(step_begins: &str) -> Self {
        let [scopes, steps, before_first, before_last] = Default::default();
        Self { step_begins: Action::new(step_begins), scopes, steps, before_first, before_last }
    }

    /// Returns the mean over all steps except the last one, whose end cannot be distinguished from
    /// the epoch's end.
    pub(super) fn per_step(&self) -> f64 {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
        (get(&self.before_last) - get(&self.before_first)) / (get(&self.steps) - 1.0)
    }
}

impl Profiler for Counting {
    fn start(&self, action: Action) {
        let before = self.scopes.fetch_add(1, Ordering::Relaxed);
        if action == self.step_begins {
            if self.steps.fetch_add(1, Ordering::Relaxed) == 0 {
                self.before_first.store(before, Ordering::Relaxed);
            }
            self.before_last.store(before, Ordering::Relaxed);
        }
    }
    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }
    fn describe(&self) {}
}

/// Returns `true` if a step, counted from 0, is recorded. In each pair of steps, one is recorded,
/// alternately the first and the second. Drift and periodic effects of the machine then affect both
/// kinds equally.
pub(super) const fn is_recorded(step: u64) -> bool {
    matches!(step % 4, 0 | 3)
}

/// Forwards every other step to another profiler and ignores the rest.
pub(super) struct EveryOther {
    profiler: Arc<dyn Profiler>,
    step_begins: Action,
    begun: AtomicU64,
}

impl EveryOther {
    pub(super) fn new(step_begins: &str, profiler: Arc<dyn Profiler>) -> Self {
        Self { profiler, step_begins: Action::new(step_begins), begun: AtomicU64::new(0) }
    }

    fn records(&self) -> bool {
        // Events before the first step are ignored.
        self.begun.load(Ordering::Relaxed).checked_sub(1).is_some_and(is_recorded)
    }
}

impl Profiler for EveryOther {
    fn start(&self, action: Action) {
        if action == self.step_begins {
            self.begun.fetch_add(1, Ordering::Relaxed);
        }
        if self.records() {
            self.profiler.start(action);
        }
    }
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        if self.records() {
            // Scopes around the steps began unrecorded, so stopping them may return an error, which
            // is ignored.
            let _ = self.profiler.stop(action);
        }
        Ok(())
    }
    fn interest(&self) -> Interest {
        self.profiler.interest()
    }
    fn describe(&self) {}
}
