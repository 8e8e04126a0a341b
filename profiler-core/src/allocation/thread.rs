//! Allocations of one thread.

use std::cell::Cell;

use super::Tallies;
use super::paths::ROOT;
use super::process::{self, FLUSH_BLOCKS, FLUSH_BYTES};
use mlprof_events::is_uncounted;

/// Counters of one thread. The cells have no destructor, so they can be used before `main`, while
/// the thread is torn down, and without allocating.
pub(super) struct Thread {
    tallies: Cell<Tallies>,
    /// Maximum of the net bytes since the last call of [`open`](Self::open).
    high: Cell<i64>,
    /// Counts that [`process::add`] has received.
    flushed: Cell<Tallies>,
    /// Maximum of the net bytes since the last flush.
    high_since_flush: Cell<i64>,
    /// Number of the open call path; see [`paths`](super::paths).
    path: Cell<u32>,
    /// See [`elsewhere`](Self::elsewhere).
    elsewhere: Cell<Tallies>,
    stage: Cell<Stage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No allocation was counted yet, so the destructor that flushes at the thread's end is not
    /// registered.
    New,
    Running,
    /// The thread's destructors are running, so every change is flushed at once.
    Ending,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            tallies: Cell::new(Tallies::ZERO),
            high: Cell::new(0),
            flushed: Cell::new(Tallies::ZERO),
            high_since_flush: Cell::new(0),
            path: Cell::new(ROOT),
            elsewhere: Cell::new(Tallies::ZERO),
            stage: Cell::new(Stage::New),
        }
    };
    static END: End = const { End };
}

/// Guard that flushes when the thread ends.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        with(|thread| {
            thread.stage.set(Stage::Ending);
            thread.flush();
        });
    }
}

#[inline(always)]
pub(super) fn with<R>(work: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(work)
}

impl Thread {
    /// Returns `true` if allocations made now are the profiler's own.
    #[inline(always)]
    pub(super) fn is_uncounted(&self) -> bool {
        is_uncounted() || crate::active::is_in_profiler()
    }

    #[inline(always)]
    pub(super) fn allocate(&self, bytes: u64) {
        let mut tallies = self.tallies.get();
        tallies.allocated_bytes = tallies.allocated_bytes.wrapping_add(bytes);
        tallies.allocated_blocks += 1;
        self.tallies.set(tallies);
        let net = tallies.net_bytes();
        if net > self.high.get() {
            self.high.set(net);
        }
        if net > self.high_since_flush.get() {
            self.high_since_flush.set(net);
        }
        self.flush_if_much(&tallies);
    }

    #[inline(always)]
    pub(super) fn free(&self, bytes: u64) {
        let mut tallies = self.tallies.get();
        tallies.freed_bytes = tallies.freed_bytes.wrapping_add(bytes);
        tallies.freed_blocks += 1;
        self.tallies.set(tallies);
        self.flush_if_much(&tallies);
    }

    /// Reverts a [`free`](Self::free).
    pub(super) fn keep(&self, bytes: u64) {
        let mut tallies = self.tallies.get();
        tallies.freed_bytes = tallies.freed_bytes.wrapping_sub(bytes);
        tallies.freed_blocks = tallies.freed_blocks.wrapping_sub(1);
        self.tallies.set(tallies);
    }

    #[inline(always)]
    fn flush_if_much(&self, tallies: &Tallies) {
        let flushed = self.flushed.get();
        let pending = tallies.net_bytes().wrapping_sub(flushed.net_bytes());
        let blocks = tallies.allocated_blocks.wrapping_sub(flushed.allocated_blocks);
        if pending.unsigned_abs() >= FLUSH_BYTES
            || blocks >= FLUSH_BLOCKS
            || self.stage.get() != Stage::Running
        {
            self.flush_now();
        }
    }

    #[cold]
    #[inline(never)]
    fn flush_now(&self) {
        if self.stage.get() == Stage::New {
            // This may itself allocate, but in C and not through this allocator.
            let is_alive = END.try_with(|_| ()).is_ok();
            self.stage.set(if is_alive { Stage::Running } else { Stage::Ending });
        }
        self.flush();
    }

    pub(super) fn flush(&self) {
        let (tallies, flushed) = (self.tallies.get(), self.flushed.get());
        let high = self.high_since_flush.get().wrapping_sub(flushed.net_bytes());
        // A `keep` may have reverted a free that was already flushed. The wrapped difference
        // corrects it.
        let counted = Tallies {
            allocated_bytes: tallies.allocated_bytes.wrapping_sub(flushed.allocated_bytes),
            allocated_blocks: tallies.allocated_blocks.wrapping_sub(flushed.allocated_blocks),
            freed_bytes: tallies.freed_bytes.wrapping_sub(flushed.freed_bytes),
            freed_blocks: tallies.freed_blocks.wrapping_sub(flushed.freed_blocks),
        };
        self.flushed.set(tallies);
        self.high_since_flush.set(tallies.net_bytes());
        process::add(&counted, high);
    }

    pub(super) fn tallies(&self) -> Tallies {
        self.tallies.get()
    }

    /// Returns the process's live bytes, including those that this thread has not flushed yet.
    #[inline(always)]
    pub(super) fn live(&self) -> i64 {
        let pending = self.tallies.get().net_bytes().wrapping_sub(self.flushed.get().net_bytes());
        process::live().wrapping_add(pending)
    }

    /// Begins a scope. Returns the state that [`close`](Self::close) needs, and starts the
    /// measurement of the scope's peak.
    pub(super) fn open(&self) -> Opened {
        let start = self.tallies.get();
        Opened { start, high: self.high.replace(start.net_bytes()) }
    }

    /// Ends a scope. Returns its counts and the maximum of the net bytes above their value at the
    /// start.
    pub(super) fn close(&self, opened: &Opened) -> (Tallies, u64) {
        let inside = self.high.get();
        self.high.set(inside.max(opened.high));
        let peak = inside.saturating_sub(opened.start.net_bytes());
        (self.tallies.get().since(&opened.start), u64::try_from(peak).unwrap_or(0))
    }

    #[inline(always)]
    pub(super) fn path(&self) -> u32 {
        self.path.get()
    }

    pub(super) fn set_path(&self, path: u32) {
        self.path.set(path);
    }

    /// Returns the counts of scopes that were outermost in their table. A scope of another table,
    /// that of an enclosing stage, may be open around them and subtracts this from its own counts.
    pub(super) fn elsewhere(&self) -> Tallies {
        self.elsewhere.get()
    }

    pub(super) fn set_elsewhere(&self, tallies: Tallies) {
        self.elsewhere.set(tallies);
    }
}

/// State of a thread when a scope was opened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    start: Tallies,
    high: i64,
}
