//! What the threads of the process have allocated together.
//!
//! Threads add what they counted when it has come to [`FLUSH_BYTES`] of live bytes or
//! [`FLUSH_BLOCKS`] blocks, and when they end: so they rarely meet, and what is read here may lack
//! that much for every other thread.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use super::Tallies;

/// Live bytes that a thread counts by itself before it adds them.
pub const FLUSH_BYTES: u64 = 32 << 10;
/// Blocks that a thread counts by itself before it adds them.
pub const FLUSH_BLOCKS: u64 = 1024;

/// A line of its own: the threads that flush write it, all others read only.
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

/// Adds what a thread counted since it last did so; `high` is the most that its net was meanwhile,
/// above what it was then.
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

/// What was added so far.
pub(super) fn totals() -> Tallies {
    let read = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
    Tallies {
        allocated_bytes: read(&PROCESS.allocated_bytes),
        allocated_blocks: read(&PROCESS.allocated_blocks),
        freed_bytes: read(&PROCESS.freed_bytes),
        freed_blocks: read(&PROCESS.freed_blocks),
    }
}

/// Live bytes as far as they were added.
#[inline(always)]
pub(super) fn live() -> i64 {
    PROCESS.live.load(Ordering::Relaxed)
}

/// The most that was live, as far as it was added.
pub(super) fn peak() -> i64 {
    PROCESS.peak.load(Ordering::Relaxed)
}

/// Nothing is live, and nothing was.
pub(super) fn restart() {
    PROCESS.live.store(0, Ordering::Relaxed);
    PROCESS.peak.store(0, Ordering::Relaxed);
}

/// What is live now is the most from here on.
pub(super) fn reset_peak() {
    PROCESS.peak.store(live(), Ordering::Relaxed);
}
