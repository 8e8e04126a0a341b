//! Allocations of all threads of the process.
//!
//! Each thread adds its counts when they reach [`FLUSH_BYTES`] of live bytes or [`FLUSH_BLOCKS`]
//! blocks, and when it ends. Threads therefore rarely contend, and the values read here may lack
//! that much of each other thread.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::Tallies;

/// Live bytes that a thread counts locally before it adds them.
pub const FLUSH_BYTES: u64 = 32 << 10;
/// Number of blocks that a thread counts locally before it adds them.
pub const FLUSH_BLOCKS: u64 = 1024;

/// Process-wide counts on cache lines of their own. Only flushing threads write them.
#[repr(align(128))]
struct Process {
    live: AtomicI64,
    peak: AtomicI64,
    allocated_bytes: AtomicU64,
    allocated_blocks: AtomicU64,
    freed_bytes: AtomicU64,
    freed_blocks: AtomicU64,
}

static PROCESS: Process = Process {
    live: AtomicI64::new(0),
    peak: AtomicI64::new(0),
    allocated_bytes: AtomicU64::new(0),
    allocated_blocks: AtomicU64::new(0),
    freed_bytes: AtomicU64::new(0),
    freed_blocks: AtomicU64::new(0),
};

/// Adds the counts of a thread since its last flush. `high` is the maximum of its net bytes since
/// then, relative to the value at that flush.
pub(super) fn add(counted: &Tallies, high: i64) {
    let net = counted.net_bytes();
    let before = PROCESS.live.fetch_add(net, Ordering::Relaxed);
    let highest = before.wrapping_add(high.max(net));
    if highest > PROCESS.peak.load(Ordering::Relaxed) {
        PROCESS.peak.fetch_max(highest, Ordering::Relaxed);
    }
    for (sum, number) in [
        (&PROCESS.allocated_bytes, counted.allocated_bytes),
        (&PROCESS.allocated_blocks, counted.allocated_blocks),
        (&PROCESS.freed_bytes, counted.freed_bytes),
        (&PROCESS.freed_blocks, counted.freed_blocks),
    ] {
        if number != 0 {
            sum.fetch_add(number, Ordering::Relaxed);
        }
    }
}

/// Returns the sum of all added counts.
pub(super) fn totals() -> Tallies {
    let read = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    Tallies {
        allocated_bytes: read(&PROCESS.allocated_bytes),
        allocated_blocks: read(&PROCESS.allocated_blocks),
        freed_bytes: read(&PROCESS.freed_bytes),
        freed_blocks: read(&PROCESS.freed_blocks),
    }
}

/// Returns the live bytes, as far as they were added.
#[inline(always)]
pub(super) fn live() -> i64 {
    PROCESS.live.load(Ordering::Relaxed)
}

/// Returns the peak of live bytes, as far as it was added.
pub(super) fn peak() -> i64 {
    PROCESS.peak.load(Ordering::Relaxed)
}

/// Resets the live bytes and their peak to 0.
pub(super) fn restart() {
    PROCESS.live.store(0, Ordering::Relaxed);
    PROCESS.peak.store(0, Ordering::Relaxed);
}

/// Resets the peak to the current live bytes.
pub(super) fn reset_peak() {
    PROCESS.peak.store(live(), Ordering::Relaxed);
}
