//! A recording with the events of all threads for a period of time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crate::recorder::regions::Regions;
use mlprof_events::clock::Rate;
use mlprof_events::forking::{Mutex, MutexGuard, apart_from_forks};
use mlprof_events::sync::Tally;
use mlprof_events::{
    ClockReading, ContextTable, CounterSample, DeviceEvent, DriverCall, MemoryLabel, Observation,
    PastMemoryChange, RegionSink, ThreadName, Timestamp, TimingMethod,
};
use mlprof_trace::internals::{
    Budget, EVENT_WORDS, Log, MEMORY_WORDS, Pool, RecordedCycle, RecordedThread,
};
use mlprof_trace::{Cycle, Dropped};

/// Memory pools shared by the successive recordings of one profiler.
pub(crate) struct Memory {
    events: Arc<Pool<EVENT_WORDS>>,
    memory: Arc<Pool<MEMORY_WORDS>>,
}

impl Memory {
    pub(crate) fn new() -> Self {
        Self { events: Arc::default(), memory: Arc::default() }
    }
}

/// A recording that threads write to while it lasts.
pub(crate) struct Recording {
    /// Number of the recording, unique in the process and above 0.
    pub(crate) number: u64,
    pub(crate) started: u64,
    clocks: ClockReading,
    pub(crate) budget: Budget,
    pub(crate) contexts: ContextTable,
    memory: Arc<Memory>,
    is_over: AtomicBool,
    tracks: Mutex<Vec<Arc<TrackLog>>>,
    device: Mutex<Vec<DeviceEvent>>,
    calls: Mutex<Vec<DriverCall>>,
    past_memory: Mutex<Vec<PastMemoryChange>>,
    counters: Mutex<Vec<CounterSample>>,
    labels: Mutex<Vec<(MemoryLabel, Timestamp)>>,
    dropped_device: AtomicU64,
    dropped_calls: AtomicU64,
    dropped_past_memory: AtomicU64,
    regions: Mutex<Regions>,
    pauses: Mutex<Pauses>,
}

/// Pauses in the recording, in clock ticks.
#[derive(Default)]
struct Pauses {
    since: Option<u64>,
    over: Vec<(Timestamp, Timestamp)>,
    ticks: u64,
}

/// Maximum number of pauses to list, which bounds their memory.
const MOST_PAUSES: usize = 4096;

impl Pauses {
    fn end(&mut self, now: u64) {
        let Some(since) = self.since.take() else { return };
        self.ticks += now.saturating_sub(since);
        if self.over.len() < MOST_PAUSES {
            self.over.push((Timestamp::from_ticks(since), Timestamp::from_ticks(now)));
        }
    }
}

/// Log of one thread.
pub(crate) struct TrackLog {
    pub(crate) name: ThreadName,
    /// Thread id of the operating system, or one assigned by mlprof.
    pub(crate) thread: u64,
    pub(crate) events: Log<EVENT_WORDS>,
    pub(crate) memory: Log<MEMORY_WORDS>,
    /// Number of open scopes.
    pub(crate) open: Tally,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn take<T: Default>(mutex: &Mutex<T>) -> T {
    std::mem::take(&mut *lock(mutex))
}

impl Recording {
    pub(crate) fn new(started: u64, max_events: u64, memory: Arc<Memory>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            started,
            clocks: ClockReading::now(),
            budget: Budget::new(max_events),
            contexts: ContextTable::default(),
            memory,
            is_over: AtomicBool::new(false),
            tracks: Mutex::default(),
            device: Mutex::default(),
            calls: Mutex::default(),
            past_memory: Mutex::default(),
            counters: Mutex::default(),
            labels: Mutex::default(),
            dropped_device: AtomicU64::new(0),
            dropped_calls: AtomicU64::new(0),
            dropped_past_memory: AtomicU64::new(0),
            regions: Mutex::default(),
            pauses: Mutex::default(),
        }
    }

    /// Creates the log of a thread.
    pub(crate) fn register(&self, name: ThreadName, thread: u64) -> Arc<TrackLog> {
        let track = Arc::new(TrackLog {
            name,
            thread,
            events: Log::new(self.memory.events.clone()),
            memory: Log::new(self.memory.memory.clone()),
            open: Tally::new(0),
        });
        apart_from_forks(|| lock(&self.tracks).push(track.clone()));
        track
    }

    fn tracks(&self) -> Vec<Arc<TrackLog>> {
        lock(&self.tracks).clone()
    }

    /// Marks the recording as ended, so that further events are not read.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Returns the memory of all logs to the pool.
    pub(crate) fn discard(&self) {
        for track in self.tracks() {
            drop((track.events.take(), track.memory.take()));
        }
    }

    /// Allocates as much memory for the pool as `cycle` occupies.
    pub(crate) fn fill_pool(&self, cycle: &Cycle) {
        let (events, memory) = cycle.chunk_counts();
        self.memory.events.fill(events);
        self.memory.memory.fill(memory);
    }

    /// Pauses the recording at `now`, in clock ticks, until [`go_on`](Self::go_on).
    pub(crate) fn pause(&self, now: u64) {
        lock(&self.pauses).since.get_or_insert(now);
    }

    /// Resumes a paused recording at `now`, in clock ticks.
    pub(crate) fn go_on(&self, now: u64) {
        lock(&self.pauses).end(now);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Stores an event that does not belong to a thread's log.
    pub(super) fn observe(&self, observation: &Observation<'_>) {
        match *observation {
            Observation::DeviceEvent(event) => self.add_device_event(*event),
            Observation::DriverCall(call) => self.add_call(*call),
            Observation::PastMemory(change) => self.add_past_memory(*change),
            Observation::MemoryLabel(label) => self.add_label(*label, Timestamp::now()),
            Observation::DeviceCounter(sample) => self.add_counter_sample(*sample),
            // All other kinds belong to a thread's log or to the report, or are unknown to this
            // version.
            _ => {}
        }
    }

    /// Stores a device event. Driver events that ended before the recording began are ignored.
    fn add_device_event(&self, event: DeviceEvent) {
        if event.method == TimingMethod::Driver && event.end.ticks() < self.started {
            return;
        }
        self.add(&self.device, event, &self.dropped_device);
    }

    /// Stores a driver call. Calls from before the recording are ignored.
    fn add_call(&self, call: DriverCall) {
        if call.start.ticks() >= self.started {
            self.add(&self.calls, call, &self.dropped_calls);
        }
    }

    /// Stores a memory change. Changes from before the recording are ignored.
    fn add_past_memory(&self, change: PastMemoryChange) {
        if change.time.ticks() >= self.started {
            self.add(&self.past_memory, change, &self.dropped_past_memory);
        }
    }

    fn add<T>(&self, list: &Mutex<Vec<T>>, entry: T, dropped: &AtomicU64) {
        if self.budget.take(1) {
            lock(list).push(entry);
        } else {
            dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Stores a counter sample. Samples from before the recording are ignored.
    fn add_counter_sample(&self, sample: CounterSample) {
        if sample.time.ticks() < self.started {
            return;
        }
        if self.budget.take(1) {
            lock(&self.counters).push(sample);
        } else {
            self.dropped_device.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn add_label(&self, label: MemoryLabel, time: Timestamp) {
        if self.budget.take(1) {
            lock(&self.labels).push((label, time));
        }
    }

    /// Takes all recorded data, up to `ended` in clock ticks.
    pub(crate) fn take(&self, ended: u64) -> RecordedCycle {
        self.go_on(ended);
        let pauses = take(&self.pauses);
        let tracks = self.tracks();
        let threads = tracks.iter().map(|track| RecordedThread {
            name: track.name.name.clone(),
            number: track.thread,
            events: track.events.take(),
            memory: track.memory.take(),
        });
        RecordedCycle {
            started: Timestamp::from_ticks(self.started),
            ended: Timestamp::from_ticks(ended),
            pauses: pauses.over,
            paused_ticks: pauses.ticks,
            clocks: [self.clocks, ClockReading::now()],
            driver_calls: take(&self.calls),
            past_memory: take(&self.past_memory),
            open_elsewhere: tracks.iter().map(|track| track.open.get()).sum(),
            threads: threads.collect(),
            device_events: take(&self.device),
            device_counters: take(&self.counters),
            memory_labels: take(&self.labels),
            dropped: self.dropped(),
            contexts: self.contexts.entries(),
            devices: mlprof_events::descriptions(),
            rate: Rate::now(),
        }
    }

    pub(crate) fn take_regions(&self) -> Regions {
        take(&self.regions)
    }

    fn dropped(&self) -> Dropped {
        let tracks = self.tracks();
        Dropped {
            events: tracks.iter().map(|track| track.events.dropped()).sum::<u64>()
                + self.dropped_calls.load(Ordering::Relaxed),
            memory: tracks.iter().map(|track| track.memory.dropped()).sum::<u64>()
                + self.dropped_past_memory.load(Ordering::Relaxed),
            device: self.dropped_device.load(Ordering::Relaxed),
        }
    }
}

/// A region belongs to the recording in which it was opened.
impl RegionSink for Recording {
    fn region(&self, event: &DeviceEvent, nanoseconds: u64) {
        lock(&self.regions).add(event.action, nanoseconds);
        self.add_device_event(*event);
    }

    fn lost(&self, why: &str) {
        lock(&self.regions).add_lost(why, 1);
    }
}
