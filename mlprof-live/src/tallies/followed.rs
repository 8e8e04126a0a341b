//! Who counts actions now, found by one load for each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use mlprof_core::{Action, ActionKind};
use mlprof_events::clock::Rate;

use super::{Tallies, thread};

/// What counts actions while somebody follows them.
#[derive(Default)]
pub(crate) struct Followed {
    /// The number of `tallies`; 0 if there are none. What threads look at for each action.
    number: AtomicU64,
    tallies: ArcSwapOption<Tallies>,
}

impl Followed {
    /// Has actions counted from here on.
    pub(crate) fn begin(&self) -> Arc<Tallies> {
        let tallies = Tallies::new();
        self.tallies.store(Some(tallies.clone()));
        self.number.store(tallies.number, Ordering::Release);
        tallies
    }

    /// Nobody looks any more.
    pub(crate) fn end(&self) {
        self.number.store(0, Ordering::Relaxed);
        self.tallies.store(None);
    }

    /// What counts actions now. In a forked child nobody does whose parent was followed.
    pub(crate) fn tallies(&self) -> Option<Arc<Tallies>> {
        if self.number.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.tallies.load_full().filter(|tallies| tallies.is_of_this_process())
    }

    /// The number of what counts this action.
    #[inline(always)]
    fn number_for(&self, action: Action) -> Option<u64> {
        let number = self.number.load(Ordering::Acquire);
        let is_told = || matches!(action.kind(), ActionKind::Action | ActionKind::Module);
        (number != 0 && is_told()).then_some(number)
    }

    /// An action begins on this thread.
    #[inline]
    pub(crate) fn start(&self, action: Action) {
        if let Some(number) = self.number_for(action) {
            thread::start(number, || self.tallies(), action);
        }
    }

    /// An action ends on this thread.
    #[inline]
    pub(crate) fn stop(&self, action: Action) {
        if let Some(number) = self.number_for(action) {
            thread::stop(number, || self.tallies(), action);
        }
    }

    /// Whether this thread is in an action.
    pub(crate) fn is_open(&self, action: Action) -> bool {
        let tallies = self.tallies();
        tallies.and_then(|it| it.here(|table| table.is_open(action))).unwrap_or(false)
    }

    /// For how long this thread has waited for data since this was last asked; `None` where nobody looks.
    pub(crate) fn take_waited(&self) -> Option<Duration> {
        let ticks = self.tallies()?.here(thread::Table::take_waited)?;
        let waited = if ticks == 0 { 0 } else { Rate::calibrated().nanoseconds(ticks) };
        Some(Duration::from_nanos(waited))
    }
}
