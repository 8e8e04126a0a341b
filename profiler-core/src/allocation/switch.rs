//! State of the tracking allocator, in one word.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use super::{process, thread};
use crate::instrumentation::{self, Instrumentation};
use mlprof_events::forking::{Mutex, made_once};
use mlprof_events::{Interest, uncounted};

/// No tracking allocator has allocated yet. The first allocation takes the slow path and clears
/// this bit.
const UNSEEN: u32 = 1;
/// Allocations are counted.
pub(super) const TALLIES: u32 = 1 << 1;
/// The call path of each block is recorded.
pub(super) const BLOCKS: u32 = 1 << 2;
/// Allocations are reported to the active profiler.
pub(super) const EVENTS: u32 = 1 << 3;
/// Blocks are recorded for running calls of [`kept_by`](super::kept_by).
pub(super) const KEPT: u32 = 1 << 4;

static STATE: AtomicU32 = AtomicU32::new(UNSEEN);
/// Number of guards that need [`TALLIES`]. Its lock also protects changes of the state.
static COUNTERS: Mutex<usize> = Mutex::new(0);

/// Returns `true` if the allocator has work to do. *Cost*: one relaxed load.
#[inline(always)]
pub(super) fn is_on() -> bool {
    STATE.load(Ordering::Relaxed) != 0
}

/// Returns the current state.
#[inline(always)]
pub(super) fn get() -> u32 {
    STATE.load(Ordering::Relaxed)
}

/// Notes that a tracking allocator has allocated.
#[cold]
pub(super) fn set_installed() {
    STATE.fetch_and(!UNSEEN, Ordering::Relaxed);
}

/// Returns `true` if a tracking allocator has allocated in this process, counted or not.
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

/// Returns `true` if more than the size of a block is needed.
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

/// Reports memory events from the allocator while an active profiler wants them.
struct Events;

impl Instrumentation for Events {
    fn interest_changed(&self, interest: Interest) {
        set(EVENTS, interest.contains(Interest::MEMORY));
    }
}

/// Starts to follow the interest of active profilers in memory events.
pub(crate) fn listen() {
    static LISTENS: OnceLock<()> = OnceLock::new();
    made_once(&LISTENS, || {
        uncounted(|| instrumentation::add(Arc::new(Events)).forever());
    });
}

/// Guard that keeps allocations counted until it is dropped. Several may exist at once.
///
/// Without any guard, the tallies do not change. When a new guard is created,
/// [`live_bytes`](super::live_bytes) begins at 0. It becomes negative when earlier blocks are
/// freed.
#[derive(Debug)]
#[must_use = "allocations are counted only until this is dropped"]
pub struct Counting(());

impl Counting {
    /// Starts counting allocations, if a [`TrackingAllocator`](super::TrackingAllocator) is
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
