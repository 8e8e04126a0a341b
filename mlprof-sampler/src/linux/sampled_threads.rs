//! Threads that are sampled.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use super::ring::Ring;
use super::slot::Slot;
use super::threads::name_of;
use super::tree::NodeId;
use mlprof_events::own_thread::NAME_PREFIX;

/// Maximum number of names under which ended threads are counted separately.
const MOST_NAMES: usize = 256;

/// Sums of the samples of one or more threads, in ticks.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) threads: u64,
    pub(super) working: u64,
    pub(super) waiting: u64,
    pub(super) stalled: u64,
}

impl Tally {
    fn add(&mut self, other: &Self) {
        self.threads += other.threads;
        self.working += other.working;
        self.waiting += other.waiting;
        self.stalled += other.stalled;
    }
}

/// A thread with a timer.
pub(super) struct Member {
    pub(super) slot: &'static Slot,
    pub(super) thread: i32,
    pub(super) name: String,
    /// Number of collector rounds since the thread was found.
    pub(super) rounds: u64,
    pub(super) tally: Tally,
    /// Node of the last sample.
    pub(super) place: Option<NodeId>,
    /// Time until which the thread is known to have waited since it became idle, in nanoseconds of
    /// the monotonic clock.
    pub(super) idle_until: Option<u64>,
    pub(super) dropped_before: u64,
    pub(super) is_present: bool,
}

impl Member {
    /// Returns the thread's ring, of which the collector uses the reading end.
    pub(super) fn ring(&self) -> &Ring {
        // SAFETY: the collector creates a member only for a slot that it took. It does not call
        // this function after it has given the slot back.
        unsafe { &self.slot.work().ring }
    }

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

/// Ended threads, grouped by name.
#[derive(Default)]
pub(super) struct EndedThreads(HashMap<String, Tally>);

impl EndedThreads {
    /// Adds a thread after all its samples were taken. mlprof's own threads are skipped.
    pub(super) fn add(&mut self, mut member: Member) {
        if member.name.starts_with(NAME_PREFIX) {
            return;
        }
        let is_new = !self.0.contains_key(&member.name);
        if is_new && self.0.len() >= MOST_NAMES {
            member.name = "other threads".to_owned();
        }
        self.0.entry(member.name).or_default().add(&member.tally);
    }

    /// Returns the sums of the ended threads together with `others`, which have not ended, grouped
    /// by name.
    pub(super) fn and<'member>(
        &self,
        others: impl Iterator<Item = &'member Member>,
    ) -> Vec<(String, Tally)> {
        let mut tallies = self.0.clone();
        for member in others {
            // A thread may set its name after its first sample.
            let now = name_of(member.thread);
            let name = if now.is_empty() { member.name.clone() } else { now };
            if !name.starts_with(NAME_PREFIX) {
                tallies.entry(name).or_default().add(&member.tally);
            }
        }
        tallies.into_iter().collect()
    }
}
