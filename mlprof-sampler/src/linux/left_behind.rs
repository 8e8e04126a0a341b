//! Resources that samplers could not free when they were dropped, because a thread was preempted
//! inside its handler.

use std::sync::PoisonError;

use mlprof_events::forking::{Mutex, MutexGuard};

use super::process_layout::Libraries;
use super::retired_snapshots::RetiredSnapshots;
use super::sampled_threads::Member;
use super::slot;
use super::timer::{self, Signal};

static LEFT_BEHIND: Mutex<Vec<LeftBehind>> = Mutex::new(Vec::new());

/// Remaining resources of a stopped sampler.
pub(super) struct LeftBehind {
    pub(super) snapshots: RetiredSnapshots,
    #[expect(dead_code, reason = "its tables are read through the snapshots")]
    pub(super) libraries: Libraries,
    /// Threads whose lease has ended and whose handler may still be running.
    pub(super) leaving: Vec<Member>,
    /// Signal to give back after the last timer is deleted. Until then its handler turns all
    /// signals away.
    pub(super) signal: Option<Signal>,
}

impl LeftBehind {
    /// Frees the resources that handlers no longer use. Returns `true` if all are freed.
    fn free_unused(&mut self) -> bool {
        self.leaving.retain(|member| {
            let is_at_rest = member.slot.lease.is_at_rest();
            if is_at_rest {
                timer::delete(member.timer());
                drop(slot::take_work(member.slot));
            }
            !is_at_rest
        });
        self.snapshots.free_unused();
        if self.leaving.is_empty()
            && let Some(signal) = self.signal.take()
        {
            signal.give_back();
        }
        self.leaving.is_empty() && self.snapshots.is_empty()
    }
}

/// Keeps the remaining resources of a sampler after it is dropped.
pub(super) fn keep(rest: LeftBehind) {
    left_behind().push(rest);
}

/// Frees the kept resources that handlers no longer use.
pub(super) fn free_unused() {
    left_behind().retain_mut(|rest| !rest.free_unused());
}

fn left_behind() -> MutexGuard<'static, Vec<LeftBehind>> {
    LEFT_BEHIND.lock().unwrap_or_else(PoisonError::into_inner)
}
