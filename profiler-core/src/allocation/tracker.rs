//! Origins of live memory: now, and at the process's peak.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use super::blocks::{Block, Blocks};
use super::paths::{Alive, Paths};
use super::{Counting, process, switch, thread};
use crate::Action;
use mlprof_events::forking::{made_once, this_process};
use mlprof_events::uncounted;

/// Minimum size in bytes of blocks that are tracked by default. Smaller blocks are numerous and
/// matter little.
pub const LEAST_BYTES: usize = 1024;

/// Threshold in bytes, and as a fraction of the last copy. The blocks are copied as the new peak
/// when the process exceeds the last copy by more than both.
const COPY_BYTES: i64 = 4096;
const COPY_PART: i64 = 128;

/// Tracker of the process. It is created when the first profiler needs it, and never freed.
pub(super) struct Tracker {
    pub(super) paths: Paths,
    blocks: Blocks,
    /// Minimum size of tracked blocks in bytes.
    least: AtomicUsize,
    /// [Process](this_process) in which the lease is held, or 0 if it is free.
    holder: AtomicU64,
    /// Number of the current stage.
    stage: AtomicU32,
    dropped: AtomicU64,
    /// Live bytes of the process at the last copy of the peak.
    copied: AtomicI64,
    is_copying: AtomicBool,
}

static TRACKER: OnceLock<Tracker> = OnceLock::new();

/// Returns the tracker and creates it if necessary.
pub(super) fn tracker() -> &'static Tracker {
    made_once(&TRACKER, || {
        uncounted(|| Tracker {
            paths: Paths::new(),
            blocks: Blocks::new(),
            least: AtomicUsize::new(LEAST_BYTES),
            holder: AtomicU64::new(0),
            stage: AtomicU32::new(0),
            dropped: AtomicU64::new(0),
            copied: AtomicI64::new(0),
            is_copying: AtomicBool::new(false),
        })
    })
}

/// Tracks an allocated block. `live` returns the live bytes of the process.
#[inline]
pub(super) fn allocated(address: usize, bytes: usize, path: u32, live: impl FnOnce() -> i64) {
    if let Some(tracker) = TRACKER.get()
        && bytes >= tracker.least.load(Ordering::Relaxed)
    {
        tracker.insert(address as u64, bytes as u64, path);
        tracker.note(live());
    }
}

/// Adds a copy to a path.
pub(super) fn copied(bytes: u64, path: u32) {
    if let Some(tracker) = TRACKER.get() {
        tracker.paths.add_copy(path, bytes.cast_signed());
    }
}

/// Removes a block that is about to be freed. Returns `true` if it was tracked.
#[inline]
pub(super) fn freed(address: usize, bytes: usize) -> bool {
    TRACKER.get().is_some_and(|tracker| {
        bytes >= tracker.least.load(Ordering::Relaxed) && tracker.remove(address as u64)
    })
}

impl Tracker {
    fn insert(&self, address: u64, bytes: u64, path: u32) {
        let block = Block { bytes, path, stage: self.stage.load(Ordering::Relaxed) };
        if self.blocks.insert(address, block) {
            self.paths.add(path, bytes.cast_signed(), 1);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn remove(&self, address: u64) -> bool {
        let Some(block) = self.blocks.remove(address) else { return false };
        self.paths.add(block.path, -block.bytes.cast_signed(), -1);
        true
    }

    /// Copies the live blocks if the process clearly exceeds its previous maximum.
    #[inline]
    fn note(&self, live: i64) {
        let copied = self.copied.load(Ordering::Relaxed);
        if live > copied.saturating_add((copied / COPY_PART).max(COPY_BYTES)) {
            self.copy_peak(live);
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_peak(&self, live: i64) {
        if !self.is_copying.swap(true, Ordering::Acquire) {
            self.paths.copy_peak();
            self.copied.store(live, Ordering::Relaxed);
            self.is_copying.store(false, Ordering::Release);
        }
    }

    /// Begins a new stage, with a new peak.
    pub(super) fn begin_stage(&self) {
        self.stage.fetch_add(1, Ordering::Relaxed);
        thread::with(thread::Thread::flush);
        process::reset_peak();
        self.copy_peak(process::live());
        self.paths.forget_copies();
    }

    /// Returns the live blocks that this stage allocated, per path.
    fn alive(&self) -> Vec<Alive> {
        let stage = self.stage.load(Ordering::Relaxed);
        let mut alive: FxHashMap<u32, Alive> = FxHashMap::default();
        for block in self.blocks.iter().filter(|block| block.stage == stage) {
            let path = block.path;
            let sum = alive.entry(path).or_insert(Alive { path, bytes: 0, blocks: 0 });
            sum.bytes += block.bytes;
            sum.blocks += 1;
        }
        alive.into_values().collect()
    }

    pub(super) fn picture(&self) -> Picture {
        let with_actions = |alive: Vec<Alive>| {
            let paths = alive.into_iter().map(|alive| PathAlive {
                actions: self.paths.actions(alive.path),
                bytes: alive.bytes,
                blocks: alive.blocks,
            });
            paths.collect()
        };
        Picture {
            alive: with_actions(self.alive()),
            at_peak: with_actions(self.paths.at_peak()),
            copies: with_actions(self.paths.copies()),
            copied_bytes: self.copied.load(Ordering::Relaxed),
            least_bytes: self.least.load(Ordering::Relaxed) as u64,
            dropped: self.dropped.load(Ordering::Relaxed),
            overflowed: self.paths.overflowed(),
        }
    }
}

/// Origins of live memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Picture {
    /// Live blocks that the running stage allocated.
    pub(super) alive: Vec<PathAlive>,
    /// Blocks alive at the process's peak.
    pub(super) at_peak: Vec<PathAlive>,
    /// Large copies: their total bytes, and their number as blocks.
    pub(super) copies: Vec<PathAlive>,
    /// Live bytes of the process at the peak.
    pub(super) copied_bytes: i64,
    /// Minimum size of the tracked blocks in bytes.
    pub(super) least_bytes: u64,
    /// Number of blocks that did not fit into the table.
    pub(super) dropped: u64,
    /// Number of calls that could not get a path of their own.
    pub(super) overflowed: u64,
}

/// Live blocks of one path, without nested paths.
#[derive(Debug, Clone)]
pub(super) struct PathAlive {
    pub(super) actions: Vec<Action>,
    pub(super) bytes: u64,
    pub(super) blocks: u64,
}

/// Guard that keeps blocks tracked until it is dropped. Only one can exist at a time.
pub(super) struct Lease {
    process: u64,
    _counting: Counting,
}

impl Lease {
    /// Takes the lease, or returns `None` if it is held.
    pub(super) fn take() -> Option<Self> {
        let (tracker, process) = (tracker(), this_process());
        // A forked child may take a lease that its parent holds, because the parent's guard is not
        // used in the child.
        let is_free = |holder: u64| (holder != process).then_some(process);
        tracker.holder.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_free).ok()?;
        tracker.clear(LEAST_BYTES);
        let _counting = Counting::start();
        switch::set(switch::BLOCKS, true);
        tracker.begin_stage();
        Some(Self { process, _counting })
    }

    /// Restarts the tracking with another minimum size.
    pub(super) fn restart(&self, least: usize) {
        switch::set(switch::BLOCKS, false);
        tracker().clear(least);
        switch::set(switch::BLOCKS, true);
    }
}

impl Tracker {
    fn clear(&self, least: usize) {
        self.blocks.clear();
        self.paths.clear();
        self.least.store(least, Ordering::Relaxed);
        self.dropped.store(0, Ordering::Relaxed);
        self.copied.store(0, Ordering::Relaxed);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // In a forked child, the copy of the parent's lease must not end the child's lease.
        if tracker().holder.load(Ordering::Relaxed) == self.process {
            switch::set(switch::BLOCKS, false);
            tracker().holder.store(0, Ordering::Release);
        }
    }
}
