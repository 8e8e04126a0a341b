//! One time of watching: from when a profiler begins to want ops to when it does not any more.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::ThreadId;

use burn::backend::StreamId;
use burn::cubecl::hash::StableHash;
use burn::cubecl::launched::LaunchedKernels;
use burn::cubecl::logging::ProfileDuration;
use mlprof_core::Interest;
use mlprof_core::hook::{self, Context, DeviceActivity, DeviceEvent, Timestamp, TimingMethod};

use super::actions::autotune;
use super::reading::{Ahead, Reading, Unread, read_all};
use super::thread::Place;
use crate::lock::lock;

/// What the observers of one time of watching share.
pub(super) struct Session {
    /// Above 0, growing.
    pub(super) number: u64,
    /// Whether shapes are wanted.
    pub(super) shapes: bool,
    /// Whether kernels are timed.
    pub(super) times: bool,
    /// Whether memory is asked for.
    pub(super) memory: bool,
    /// Whether nobody listens any more. A program whose own observer of launches is dropped after
    /// ours puts ours back, for good.
    is_over: AtomicBool,
    /// Measurements that have not been read.
    unread: Mutex<Vec<Unread>>,
    ahead: Mutex<Ahead>,
    /// All threads that called ops, by their streams.
    streams: Mutex<HashSet<StreamId>>,
    /// The blocks that run now.
    open: Mutex<Vec<(ThreadId, Place)>>,
    /// When kernels began to be tried.
    tuning: Mutex<Option<Timestamp>>,
    /// What was launched since a launch was last looked at, if kernels are timed.
    launched: Mutex<Option<LaunchedKernels>>,
}

/// The kernels that were launched while some session was there.
static SEEN: Mutex<Option<HashSet<StableHash>>> = Mutex::new(None);

/// A number that no other launch of the process has. CUDA's driver counts its calls from 1: ours are
/// in the upper half.
pub(super) fn next_correlation() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) | (1 << 31)
}

impl Session {
    pub(super) fn new(interest: Interest) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let times = interest.contains(Interest::DEVICE);
        Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            shapes: interest.contains(Interest::SHAPES),
            times,
            memory: interest.contains(Interest::MEMORY),
            is_over: AtomicBool::new(false),
            unread: Mutex::default(),
            ahead: Mutex::default(),
            streams: Mutex::default(),
            open: Mutex::default(),
            tuning: Mutex::default(),
            launched: Mutex::new(times.then(LaunchedKernels::new)),
        }
    }

    /// What is told from here on is for nobody.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn add_stream(&self, stream: StreamId) {
        lock(&self.streams).insert(stream);
    }

    pub(super) fn streams(&self) -> Vec<StreamId> {
        lock(&self.streams).iter().copied().collect()
    }

    pub(super) fn has_stream(&self, stream: StreamId) -> bool {
        lock(&self.streams).contains(&stream)
    }

    /// A block begins on the calling thread.
    pub(super) fn open_block(&self, place: Place) {
        lock(&self.open).push((std::thread::current().id(), place));
    }

    /// The calling thread's innermost block ends.
    pub(super) fn close_block(&self) {
        let thread = std::thread::current().id();
        let mut open = lock(&self.open);
        if let Some(last) = open.iter().rposition(|(owner, _)| *owner == thread) {
            open.remove(last);
        }
    }

    /// The place of the block that began last: the one that waits while its device tries kernels.
    pub(super) fn waiting_place(&self) -> Place {
        lock(&self.open).last().map(|(_, place)| *place).unwrap_or_default()
    }

    /// A kernel is tried.
    pub(super) fn tune(&self) {
        lock(&self.tuning).get_or_insert_with(Timestamp::now);
    }

    /// Kernels are not tried any more, if they were.
    pub(super) fn end_tuning(&self, device: u32, context: Option<Context>) {
        let Some(start) = lock(&self.tuning).take() else { return };
        hook::device_event(&DeviceEvent {
            activity: DeviceActivity::Tuning,
            method: TimingMethod::Host,
            device,
            context,
            ..DeviceEvent::new(autotune(), start, Timestamp::now())
        });
    }

    /// Whether the kernel that is launched just now never was before, as far as this process was
    /// watched with kernels timed: then it is compiled, or loaded from cubecl's store. Without
    /// times the launch would not show it, and cubecl takes its time to tell kernels apart.
    pub(super) fn is_first_launch(&self) -> bool {
        if !self.times {
            return false;
        }
        let since = lock(&self.launched).replace(LaunchedKernels::new());
        let Some(since) = since else { return false };
        let mut seen = lock(&SEEN);
        let seen = seen.get_or_insert_default();
        // All of them: `any` would stop at the first new one.
        since.finish().into_iter().filter(|kernel| seen.insert(*kernel)).count() > 0
    }

    /// Keeps a measurement until it is read.
    pub(super) fn keep(&self, reading: Reading, measurement: ProfileDuration) {
        lock(&self.unread).push(Unread { reading, measurement });
    }

    pub(super) fn unread(&self) -> usize {
        lock(&self.unread).len()
    }

    /// Reads all measurements, waiting for the device, and delivers them.
    pub(super) fn deliver(&self) {
        let unread = std::mem::take(&mut *lock(&self.unread));
        read_all(unread, &mut lock(&self.ahead));
    }
}
