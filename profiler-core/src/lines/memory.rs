//! Memory measurements at line boundaries.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::allocation;
use crate::report::lines::LineMemory;
use mlprof_events::sync::Tally;

static IS_WANTED: AtomicBool = AtomicBool::new(false);

#[inline(always)]
pub(super) fn is_wanted() -> bool {
    IS_WANTED.load(Ordering::Relaxed)
}

pub(super) fn want(is_wanted: bool) {
    IS_WANTED.store(is_wanted, Ordering::Relaxed);
}

/// Memory state of one thread in one function. Signed numbers are stored in two's complement.
#[derive(Debug)]
pub(super) struct State {
    /// Net bytes allocated by the thread when the running line began. Valid if `has_net` is 1.
    net: Tally,
    has_net: Tally,
    /// Live bytes of the process when the last call ended.
    left: Tally,
    entry: Line,
}

/// Memory tallies of one line, or of the beginning of the function.
#[derive(Debug)]
pub(super) struct Line {
    highest: Tally,
    increment: Tally,
    occurrences: Tally,
}

impl State {
    pub fn new() -> Self {
        let zero = || Tally::new(0);
        Self { net: zero(), has_net: zero(), left: zero(), entry: Line::new() }
    }

    /// Ends the measurement of a line, if one was running, and begins the next measurement.
    pub fn change(&self, ended: Option<&Line>) {
        let net = allocation::thread_tallies().net_bytes();
        if let Some(line) = ended
            && self.has_net.get() == 1
        {
            line.add(net.wrapping_sub(self.net.get().cast_signed()), allocation::live_bytes());
        }
        self.net.set(net.cast_unsigned());
        self.has_net.set(1);
    }

    /// Records the memory at the start of an outermost frame.
    pub fn enter(&self) {
        let live = allocation::live_bytes();
        self.entry.add(live.wrapping_sub(self.left.get().cast_signed()), live);
    }

    /// Records the memory at the end of an outermost frame.
    pub fn leave(&self) {
        self.left.set(allocation::live_bytes().cast_unsigned());
    }

    /// Resets the tallies for [`Block::restart`](super::block::Block::restart). The thread's
    /// allocations are unchanged.
    pub fn restart(&self) {
        self.entry.restart();
    }

    pub fn entry(&self) -> Snapshot {
        self.entry.snapshot()
    }
}

impl Line {
    pub fn new() -> Self {
        let highest = Tally::new(i64::MIN.cast_unsigned());
        Self { highest, increment: Tally::new(0), occurrences: Tally::new(0) }
    }

    pub fn restart(&self) {
        self.highest.set(i64::MIN.cast_unsigned());
        self.increment.set(0);
        self.occurrences.publish(0);
    }

    fn add(&self, increment: i64, live: i64) {
        self.highest.set(self.highest.get().cast_signed().max(live).cast_unsigned());
        self.increment.add(increment.cast_unsigned());
        self.occurrences.publish(self.occurrences.get() + 1);
    }

    pub fn snapshot(&self) -> Snapshot {
        let occurrences = self.occurrences.get_published();
        let (increment, highest) = (self.increment.get(), self.highest.get());
        Snapshot(LineMemory {
            max_bytes: highest.cast_signed(),
            increment_bytes: increment.cast_signed(),
            occurrences,
        })
    }
}

/// Copy of tallies, or a sum of copies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Snapshot(LineMemory);

impl Default for Snapshot {
    fn default() -> Self {
        Self(LineMemory { max_bytes: i64::MIN, increment_bytes: 0, occurrences: 0 })
    }
}

impl Snapshot {
    pub fn merge(&mut self, other: &Self) {
        self.0.max_bytes = self.0.max_bytes.max(other.0.max_bytes);
        self.0.increment_bytes = self.0.increment_bytes.wrapping_add(other.0.increment_bytes);
        self.0.occurrences += other.0.occurrences;
    }

    /// Returns the statistics, or `None` if no measurement was taken.
    pub fn get(&self) -> Option<LineMemory> {
        (self.0.occurrences > 0).then_some(self.0)
    }
}
