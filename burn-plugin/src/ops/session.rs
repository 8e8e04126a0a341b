//! A recording session: the time during which a profiler requests ops.

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
use super::reading::{ClockOffsets, Reading, Unread, read_all};
use super::thread::Place;
use crate::lock::lock;

/// State shared by the observers of one session.
pub(super) struct Session {
    /// Session number, starting at 1 and increasing.
    pub(super) number: u64,
    /// Enables recording of shapes.
    pub(super) shapes: bool,
    /// Enables timing of kernels.
    pub(super) times: bool,
    /// Enables recording of memory use.
    pub(super) memory: bool,
    /// Set when the session has ended. The observer can stay installed afterwards: if the program's
    /// own launch observer is dropped after ours, it reinstalls ours permanently.
    is_over: AtomicBool,
    /// Measurements that have not been read yet.
    unread: Mutex<Vec<Unread>>,
    ahead: Mutex<ClockOffsets>,
    /// Streams of all threads that called ops.
    streams: Mutex<HashSet<StreamId>>,
    /// Blocks that are currently running.
    open: Mutex<Vec<(ThreadId, Place)>>,
    /// Start of the current autotuning; `None` if no trial is running.
    tuning: Mutex<Option<Timestamp>>,
    /// Kernels launched since the previous launch was checked. `None` if kernels are not timed.
    launched: Mutex<Option<LaunchedKernels>>,
}

/// Kernels launched during any session of this process.
static SEEN: Mutex<Option<HashSet<StableHash>>> = Mutex::new(None);

/// Returns a correlation id that is unique in the process. The CUDA driver counts its calls from 1,
/// so these ids use the upper half of the range.
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

    /// Ends the session. Later events are ignored.
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

    /// Records the beginning of a block on the calling thread.
    pub(super) fn open_block(&self, place: Place) {
        lock(&self.open).push((std::thread::current().id(), place));
    }

    /// Records the end of the calling thread's innermost block.
    pub(super) fn close_block(&self) {
        let thread = std::thread::current().id();
        let mut open = lock(&self.open);
        if let Some(last) = open.iter().rposition(|(owner, _)| *owner == thread) {
            open.remove(last);
        }
    }

    /// Returns the place of the block that began last. This block waits while its device runs
    /// autotuning trials.
    pub(super) fn waiting_place(&self) -> Place {
        lock(&self.open).last().map(|(_, place)| *place).unwrap_or_default()
    }

    /// Records an autotuning trial.
    pub(super) fn tune(&self) {
        lock(&self.tuning).get_or_insert_with(Timestamp::now);
    }

    /// Reports the end of the current autotuning, if any.
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

    /// Returns `true` if the kernel being launched was not launched before in any session with
    /// timed kernels. It is then compiled or loaded from cubecl's cache. Without timing, the launch
    /// would not show the compilation, and identifying kernels takes time in cubecl. The function
    /// then returns `false`.
    pub(super) fn is_first_launch(&self) -> bool {
        if !self.times {
            return false;
        }
        let since = lock(&self.launched).replace(LaunchedKernels::new());
        let Some(since) = since else { return false };
        let mut seen = lock(&SEEN);
        let seen = seen.get_or_insert_default();
        // `count` visits all kernels, but `any` would stop at the first new one.
        since.finish().into_iter().filter(|kernel| seen.insert(*kernel)).count() > 0
    }

    /// Stores a measurement until it is read.
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
