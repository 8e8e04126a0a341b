//! Threads that could not get a timer or a slot.

use std::collections::HashMap;

/// Maximum number of rounds between two attempts for a thread, about five seconds.
const LONGEST_WAIT: u64 = 512;

/// Refused threads, and the collector rounds in which to retry them.
#[derive(Default)]
pub(super) struct Refusals {
    alive: HashMap<i32, Refusal>,
    /// Number of threads that ended without being sampled.
    ended: u64,
}

struct Refusal {
    next: u64,
    wait: u64,
}

impl Refusals {
    /// Returns `true` if a thread without a timer is to be tried in this round.
    pub(super) fn is_due(&self, thread: i32, round: u64) -> bool {
        self.alive.get(&thread).is_none_or(|refusal| round >= refusal.next)
    }

    /// Records that a thread was refused in this round. It is retried after 1, 2, 4, … rounds.
    pub(super) fn add(&mut self, thread: i32, round: u64) {
        let refusal = self.alive.entry(thread).or_insert(Refusal { next: 0, wait: 1 });
        refusal.next = round + refusal.wait;
        refusal.wait = (refusal.wait * 2).min(LONGEST_WAIT);
    }

    /// Removes a thread that is now sampled.
    pub(super) fn take_back(&mut self, thread: i32) {
        self.alive.remove(&thread);
    }

    /// Removes threads that have ended, because another thread may get the same id.
    pub(super) fn retain(&mut self, threads: &[i32]) {
        let before = self.alive.len();
        self.alive.retain(|thread, _| threads.contains(thread));
        self.ended += (before - self.alive.len()) as u64;
    }

    /// Returns the number of threads that are not sampled or ended without being sampled, each
    /// counted once.
    pub(super) fn count(&self) -> u64 {
        self.ended + self.alive.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_thread_counts_once_and_is_tried_less_and_less_often() {
        let mut refusals = Refusals::default();
        let mut tries = Vec::new();
        for round in 0..3000 {
            if refusals.is_due(7, round) {
                tries.push(round);
                refusals.add(7, round);
            }
        }
        assert_eq!(tries, [0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1535, 2047, 2559]);
        assert_eq!(refusals.count(), 1);
        refusals.retain(&[1, 2]);
        assert_eq!(refusals.count(), 1, "ended, and never sampled");
        assert!(refusals.is_due(7, 3000), "another thread of the number");
        refusals.add(7, 3000);
        refusals.add(8, 3000);
        assert_eq!(refusals.count(), 3);
        refusals.take_back(8);
        assert_eq!(refusals.count(), 2);
    }
}
