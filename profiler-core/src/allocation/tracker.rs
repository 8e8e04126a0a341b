//! Who allocated what is alive: now, and when the process had most.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

use super::blocks::{Block, Blocks};
use super::paths::{Alive, Paths};
use super::{Counting, process, switch, thread};
use crate::Action;
use mlprof_events::forking::{made_once, this_process};
use mlprof_events::uncounted;

/// Smaller blocks are not followed unless a profiler asks for it: they are many and matter little.
pub const LEAST_BYTES: usize = 1024;

/// What was alive at the peak is copied when the process has more than at the last copy, by more
/// than this and more than one part in [`COPY_PART`].
const COPY_BYTES: i64 = 4096;
const COPY_PART: i64 = 128;

/// One per process; made when the first profiler wants it, and kept.
pub(super) struct Tracker {
    pub(super) paths: Paths,
    blocks: Blocks,
    /// Blocks of this size and larger are followed.
    least: AtomicUsize,
    /// [The process](this_process) in which somebody has the lease; 0: nobody.
    holder: AtomicU64,
    /// The number of the stage.
    stage: AtomicU32,
    dropped: AtomicU64,
    /// Live bytes of the process when the peak was copied last.
    copied: AtomicI64,
    is_copying: AtomicBool,
}

static TRACKER: OnceLock<Tracker> = OnceLock::new();

/// The tracker, made if need be.
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

/// A block was allocated, with so many bytes alive in the process.
#[inline]
pub(super) fn allocated(address: usize, bytes: usize, path: u32, live: impl FnOnce() -> i64) {
    if let Some(tracker) = TRACKER.get()
        && bytes >= tracker.least.load(Ordering::Relaxed)
    {
        tracker.insert(address as u64, bytes as u64, path);
        tracker.note(live());
    }
}

/// So many bytes were copied at once.
pub(super) fn copied(bytes: u64, path: u32) {
    if let Some(tracker) = TRACKER.get() {
        tracker.paths.add_copy(path, bytes.cast_signed());
    }
}

/// A block is about to be freed; true if it was followed.
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

    /// Copies what is alive if the process has clearly more than ever before.
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

    /// From here on everything is of a new stage, and so is the peak.
    pub(super) fn begin_stage(&self) {
        self.stage.fetch_add(1, Ordering::Relaxed);
        thread::with(thread::Thread::flush);
        process::reset_peak();
        self.copy_peak(process::live());
        self.paths.forget_copies();
    }

    /// What is alive of what this stage allocated, per path.
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

/// Who allocated what is alive.
#[derive(Debug, Clone, Default)]
pub(super) struct Picture {
    /// Now, of what the running stage allocated.
    pub(super) alive: Vec<PathAlive>,
    /// When the process had most.
    pub(super) at_peak: Vec<PathAlive>,
    /// What was copied: as bytes, and as blocks how many times.
    pub(super) copies: Vec<PathAlive>,
    /// What the process had at the peak.
    pub(super) copied_bytes: i64,
    /// Blocks of this size and larger are in here.
    pub(super) least_bytes: u64,
    /// Blocks that the table had no room for.
    pub(super) dropped: u64,
    /// Calls that found no room for their path.
    pub(super) overflowed: u64,
}

/// What is alive of what one path allocated, without the paths inside it.
#[derive(Debug, Clone)]
pub(super) struct PathAlive {
    pub(super) actions: Vec<Action>,
    pub(super) bytes: u64,
    pub(super) blocks: u64,
}

/// Keeps blocks followed until it is dropped. One at a time.
pub(super) struct Lease {
    process: u64,
    _counting: Counting,
}

impl Lease {
    /// `None` if somebody has it.
    pub(super) fn take() -> Option<Self> {
        let (tracker, process) = (tracker(), this_process());
        // What a forked child's parent has taken is the parent's: its copy is not used in the
        // child.
        let is_free = |holder: u64| (holder != process).then_some(process);
        tracker.holder.fetch_update(Ordering::AcqRel, Ordering::Relaxed, is_free).ok()?;
        tracker.clear(LEAST_BYTES);
        let _counting = Counting::start();
        switch::set(switch::BLOCKS, true);
        tracker.begin_stage();
        Some(Self { process, _counting })
    }

    /// Begins anew, with blocks of another size.
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
        // The copy of a parent's lease must not end that of the child.
        if tracker().holder.load(Ordering::Relaxed) == self.process {
            switch::set(switch::BLOCKS, false);
            tracker().holder.store(0, Ordering::Release);
        }
    }
}
