//! What the tracking allocator is to do, in one word.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use super::{process, thread};
use crate::instrumentation::{self, Instrumentation};
use mlprof_events::forking::{Mutex, made_once};
use mlprof_events::{Interest, uncounted};

/// No tracking allocator has allocated yet: the first one that does takes the slow path and says so.
const UNSEEN: u32 = 1;
/// Count.
pub(super) const TALLIES: u32 = 1 << 1;
/// Remember which call path allocated a block.
pub(super) const BLOCKS: u32 = 1 << 2;
/// Tell the active profiler.
pub(super) const EVENTS: u32 = 1 << 3;
/// Remember the blocks of works that are [followed](super::kept_by).
pub(super) const KEPT: u32 = 1 << 4;

static STATE: AtomicU32 = AtomicU32::new(UNSEEN);
/// How many want [`TALLIES`]; also the lock of changes.
static COUNTERS: Mutex<usize> = Mutex::new(0);

/// Whether there is anything to do. *Cost*: one relaxed load.
#[inline(always)]
pub(super) fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) != 0
}

/// What is to be done.
#[inline(always)]
pub(super) fn get() -> u32 {
    STATE.load(Ordering::Relaxed)
}

/// A tracking allocator has allocated.
#[cold]
pub(super) fn set_installed() {
    STATE.fetch_and(!UNSEEN, Ordering::Relaxed);
}

/// Whether a tracking allocator has allocated something, counted or not, in this process.
pub(super) fn is_installed() -> bool {
    STATE.load(Ordering::Relaxed) & UNSEEN == 0
}

pub(super) const fn is_first(state: u32) -> bool {
    state & UNSEEN != 0
}

#[inline(always)]
pub(super) const fn is_counting(state: u32) -> bool {
    state & !UNSEEN != 0
}

/// Whether somebody wants to know more of a block than its size.
#[inline(always)]
pub(super) const fn is_following(state: u32) -> bool {
    state & (BLOCKS | EVENTS | KEPT) != 0
}

pub(super) fn set(bit: u32, is_set: bool) {
    if is_set {
        STATE.fetch_or(bit, Ordering::Relaxed);
    } else {
        STATE.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// Has the allocator tell of memory whenever an active profiler wants to know.
struct Events;

impl Instrumentation for Events {
    fn interest_changed(&self, interest: Interest) {
        set(EVENTS, interest.contains(Interest::MEMORY));
    }
}

/// From here on it is known what active profilers want to hear of memory.
pub(crate) fn listen() {
    static LISTENS: OnceLock<()> = OnceLock::new();
    made_once(&LISTENS, || {
        uncounted(|| instrumentation::add(Arc::new(Events)).forever());
    });
}

/// Keeps allocations counted until it is dropped. Several may do so at once.
///
/// Nothing is counted while there is none: the tallies then stand still. When there is one again,
/// [`live_bytes`](super::live_bytes) begins at 0, and falls below it when blocks from before are
/// freed.
#[derive(Debug)]
#[must_use = "allocations are counted only until this is dropped"]
pub struct Counting(());

impl Counting {
    /// From here on allocations are counted, if a [`TrackingAllocator`](super::TrackingAllocator) is
    /// [installed](super::is_installed).
    pub fn start() -> Self {
        let mut counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
        if *counters == 0 {
            thread::with(thread::Thread::flush);
            process::restart();
        }
        *counters += 1;
        set(TALLIES, true);
        Self(())
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let mut counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
        *counters -= 1;
        set(TALLIES, *counters > 0);
    }
}
