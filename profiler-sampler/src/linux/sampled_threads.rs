//! Threads that are sampled.

use std::sync::atomic::Ordering;

use super::slot::Slot;
use super::threads::name_of;
use super::tree::NodeId;

/// What is known of one thread's samples. Weights in ticks.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) threads: u64,
    pub(super) working: u64,
    pub(super) waiting: u64,
    pub(super) stalled: u64,
}

/// A thread that has a timer.
pub(super) struct Member {
    pub(super) slot: &'static Slot,
    pub(super) thread: i32,
    pub(super) name: String,
    /// For how many rounds of the collector it is known.
    pub(super) rounds: u64,
    pub(super) tally: Tally,
    /// Where the last sample was.
    pub(super) place: Option<NodeId>,
    /// Until when the thread is known to have waited since it became idle; nanoseconds.
    pub(super) idle_until: Option<u64>,
    pub(super) dropped_before: u64,
    pub(super) is_present: bool,
}

impl Member {
    pub(super) fn timer(&self) -> libc::timer_t {
        self.slot.timer.load(Ordering::Relaxed)
    }

    pub(super) fn has_begun(&self) -> bool {
        self.slot.has_begun.load(Ordering::Relaxed)
    }

    pub(super) fn refresh_name(&mut self) {
        let now = name_of(self.thread);
        if !now.is_empty() {
            self.name = now;
        }
    }
}
