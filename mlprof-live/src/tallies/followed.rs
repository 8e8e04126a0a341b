//! Active counter of actions, which threads find with one atomic load per action.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use mlprof_core::{Action, ActionKind};
use mlprof_events::clock::Rate;

use super::{Tallies, thread};

/// Handle to the tallies that are active while clients follow the process.
#[derive(Default)]
pub(crate) struct Followed {
    /// Number of the active tallies, or 0. Threads load it for each action. It is stored with
    /// `Release` after `tallies`, so a thread that loads it with `Acquire` also sees these tallies.
    number: AtomicU64,
    tallies: ArcSwapOption<Tallies>,
}

impl Followed {
    /// Starts counting actions in new tallies.
    pub(crate) fn begin(&self) -> Arc<Tallies> {
        let tallies = Tallies::new();
        self.tallies.store(Some(tallies.clone()));
        self.number.store(tallies.number, Ordering::Release);
        tallies
    }

    /// Stops counting actions.
    pub(crate) fn end(&self) {
        self.number.store(0, Ordering::Relaxed);
        self.tallies.store(None);
    }

    /// Returns the active tallies. In a forked child, the tallies of its parent do not count.
    pub(crate) fn tallies(&self) -> Option<Arc<Tallies>> {
        if self.number.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.tallies.load_full().filter(|tallies| tallies.is_of_this_process())
    }

    /// Returns the number of the tallies that count this action, if any.
    #[inline(always)]
    fn number_for(&self, action: Action) -> Option<u64> {
        let number = self.number.load(Ordering::Acquire);
        let is_told = || matches!(action.kind(), ActionKind::Action | ActionKind::Module);
        (number != 0 && is_told()).then_some(number)
    }

    /// Records the start of an action on this thread.
    #[inline]
    pub(crate) fn start(&self, action: Action) {
        if let Some(number) = self.number_for(action) {
            thread::start(number, || self.tallies(), action);
        }
    }

    /// Records the end of an action on this thread.
    #[inline]
    pub(crate) fn stop(&self, action: Action) {
        if let Some(number) = self.number_for(action) {
            thread::stop(number, || self.tallies(), action);
        }
    }

    /// Returns `true` if the action is open on this thread.
    pub(crate) fn is_open(&self, action: Action) -> bool {
        let tallies = self.tallies();
        tallies.and_then(|it| it.here(|table| table.is_open(action))).unwrap_or(false)
    }

    /// Returns the time that this thread has waited for data since the last call. Returns `None` if
    /// no client follows.
    pub(crate) fn take_waited(&self) -> Option<Duration> {
        let ticks = self.tallies()?.here(thread::Table::take_waited)?;
        let waited = if ticks == 0 { 0 } else { Rate::calibrated().nanoseconds(ticks) };
        Some(Duration::from_nanos(waited))
    }
}
