//! A completed recording and its read access.

mod clock_shift;
mod deduplicate_kernels;
mod driver_calls;
mod event;
pub(crate) mod event_log;
mod time_order;

use std::collections::BTreeMap;
use std::ops::Range;

pub(crate) use self::clock_shift::{clock_shifts, early};
use self::deduplicate_kernels::pair;
use self::driver_calls::{DriverWork, as_events, by_thread};
pub use self::event::{EVENT_WORDS, Event, MEMORY_WORDS, MemoryEvent, OpenEvent};
use self::event_log::LogSnapshot;
use self::time_order::InTimeOrder;
use crate::trace_options::TraceOptions;
use mlprof_events::OrderExt;
use mlprof_events::clock::Rate;
use mlprof_events::{
    Action, ClockReading, Context, CounterSample, DeviceDescription, DeviceEvent, DriverCall,
    MemoryLabel, OpenActions, PastMemoryChange, RunContext, Stage, ThreadName, Timestamp, UtcTime,
};

/// One completed cycle of a [`Schedule`](mlprof_events::Schedule), as passed to
/// `TensorProfiler::on_trace_ready`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cycle {
    /// Index of the cycle in its stage, counted from 0.
    pub number: u64,
    /// Recorded steps, counted from 0 in their stage.
    pub steps: Range<u64>,
    /// Set if all active steps of the schedule are in the cycle. Some are missing if the run ends
    /// early.
    pub is_complete: bool,
    /// Stage of the trainer, if it declared one.
    pub stage: Option<Stage>,
    /// Rank and world size of the process.
    pub run: RunContext,
    /// Start of the cycle.
    pub started: Timestamp,
    /// End of the cycle.
    pub ended: Timestamp,
    /// Times in which recording was paused, as for a validation within a step: starts and ends in
    /// chronological order, at most the first 4,096.
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// Readings of the machine's clocks at the beginning and at the end.
    #[doc(hidden)]
    pub clocks: [ClockReading; 2],
    /// Events on devices, in the order in which they were reported.
    pub device_events: Vec<DeviceEvent>,
    /// Samples of device counters, in the order in which they were reported.
    pub device_counters: Vec<CounterSample>,
    /// Labels that hooks assigned to memory.
    pub memory_labels: Vec<MemoryLabel>,
    /// Time of each label.
    pub memory_label_times: Vec<Timestamp>,
    /// Numbers of events that were dropped for lack of space.
    pub dropped: Dropped,
    /// Number of scopes on other threads that were open at the end. They are not among the events.
    pub open_elsewhere: u64,
    /// Number of the driver's kernel events that were removed because the framework reported the
    /// same kernels. It is 0 if all events could be paired. Otherwise both sources reported
    /// different numbers of kernels, and the framework's events were kept unchanged.
    pub kernels_told_twice: u64,
    /// Optional content of traces.
    pub trace: TraceOptions,
    tracks: Vec<Track>,
    contexts: Vec<OpenActions>,
    devices: BTreeMap<u32, DeviceDescription>,
    rate: Rate,
    paused_ticks: u64,
}

/// Record of one thread.
#[derive(Debug)]
#[non_exhaustive]
pub struct Track {
    /// Name of the thread.
    pub thread_name: String,
    /// Operating system's id of the thread.
    pub thread: u64,
    events: LogSnapshot<EVENT_WORDS>,
    memory: LogSnapshot<MEMORY_WORDS>,
    /// Driver calls, sorted by end.
    calls: Vec<Event>,
    /// Memory changes by drivers on behalf of the thread, in chronological order.
    past_memory: Vec<MemoryEvent>,
}

impl Track {
    fn new(thread: RecordedThread, driver: DriverWork) -> Self {
        let RecordedThread { name, number, events, memory } = thread;
        let own = InTimeOrder::new(&events, &[], Event::from_words);
        let calls = as_events(&driver.calls, own);
        Self {
            thread_name: name,
            thread: number,
            memory,
            past_memory: driver.memory,
            events,
            calls,
        }
    }

    /// Returns the events in the order in which they ended, so that an inner event precedes the
    /// enclosing one.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = Event> + '_ {
        InTimeOrder::new(&self.events, &self.calls, Event::from_words)
    }

    /// Returns the number of events.
    #[doc(hidden)]
    pub fn event_count(&self) -> usize {
        self.events.len() + self.calls.len()
    }

    /// Returns the allocations and deallocations of the thread in chronological order.
    #[doc(hidden)]
    pub fn memory_events(&self) -> impl DoubleEndedIterator<Item = MemoryEvent> + '_ {
        InTimeOrder::new(&self.memory, &self.past_memory, |words| {
            Some(MemoryEvent::from_words(words))
        })
    }

    /// Returns the number of allocations and deallocations.
    #[doc(hidden)]
    pub fn memory_event_count(&self) -> usize {
        self.memory.len() + self.past_memory.len()
    }
}

/// Numbers of events that were dropped for lack of space or arrived after the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Ops, actions and other scopes.
    pub events: u64,
    /// Allocations and deallocations.
    pub memory: u64,
    /// Kernels, copies and samples of device counters.
    pub device: u64,
}

/// Identification of a cycle and its steps.
#[derive(Debug)]
pub struct CycleName {
    /// Value for [`Cycle::number`].
    pub number: u64,
    /// Value for [`Cycle::steps`].
    pub steps: Range<u64>,
    /// Value for [`Cycle::is_complete`].
    pub is_complete: bool,
    /// Value for [`Cycle::stage`].
    pub stage: Option<Stage>,
    /// Value for [`Cycle::run`].
    pub run: RunContext,
}

/// Recorded data of a cycle.
#[derive(Debug)]
pub struct RecordedCycle {
    /// Start of the cycle.
    pub started: Timestamp,
    /// End of the cycle.
    pub ended: Timestamp,
    /// Value for [`Cycle::pauses`].
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// Total duration of all pauses in ticks.
    pub paused_ticks: u64,
    /// Value for [`Cycle::clocks`].
    pub clocks: [ClockReading; 2],
    /// Threads in the order in which they began to record.
    pub threads: Vec<RecordedThread>,
    /// Driver calls of all threads.
    pub driver_calls: Vec<DriverCall>,
    /// Memory changes by drivers.
    pub past_memory: Vec<PastMemoryChange>,
    /// Value for [`Cycle::device_events`].
    pub device_events: Vec<DeviceEvent>,
    /// Value for [`Cycle::device_counters`].
    pub device_counters: Vec<CounterSample>,
    /// Labels of memory, each with its time.
    pub memory_labels: Vec<(MemoryLabel, Timestamp)>,
    /// Value for [`Cycle::dropped`].
    pub dropped: Dropped,
    /// Value for [`Cycle::open_elsewhere`].
    pub open_elsewhere: u64,
    /// Actions that were open at the call sites of ops, indexed by [`Context::number`] − 1.
    pub contexts: Vec<OpenActions>,
    /// Descriptions of the devices.
    pub devices: BTreeMap<u32, DeviceDescription>,
    /// Converter from ticks to seconds.
    pub rate: Rate,
}

/// Data that one thread recorded itself.
#[derive(Debug)]
pub struct RecordedThread {
    /// Value for [`Track::thread_name`].
    pub name: String,
    /// Value for [`Track::thread`].
    pub number: u64,
    /// Events, sorted by end.
    pub events: LogSnapshot<EVENT_WORDS>,
    /// Allocations and deallocations.
    pub memory: LogSnapshot<MEMORY_WORDS>,
}

impl RecordedThread {
    /// Creates a thread that recorded no data itself.
    fn of_number(number: u64) -> Self {
        let name = ThreadName::of_number(number).name;
        Self { name, number, events: LogSnapshot::empty(), memory: LogSnapshot::empty() }
    }
}

impl Cycle {
    /// Creates a cycle from its recorded data.
    #[doc(hidden)]
    pub fn new(name: CycleName, recorded: RecordedCycle) -> Self {
        let RecordedCycle { mut threads, mut device_events, .. } = recorded;
        let mut driver = by_thread(recorded.driver_calls, recorded.past_memory);
        // These threads called a driver but recorded no events.
        let is_new = |number: &u64| threads.iter().all(|thread| thread.number != *number);
        let mut others: Vec<u64> = driver.keys().copied().filter(is_new).collect();
        others.order();
        threads.extend(others.into_iter().map(RecordedThread::of_number));
        let tracks = threads.into_iter().map(|thread| {
            let driver = driver.remove(&thread.number).unwrap_or_default();
            Track::new(thread, driver)
        });
        let tracks = tracks.collect();
        let kernels_told_twice = pair(&mut device_events);
        let (memory_labels, memory_label_times) = recorded.memory_labels.into_iter().unzip();
        Self {
            number: name.number,
            steps: name.steps,
            is_complete: name.is_complete,
            stage: name.stage,
            run: name.run,
            started: recorded.started,
            ended: recorded.ended,
            pauses: recorded.pauses,
            paused_ticks: recorded.paused_ticks,
            clocks: recorded.clocks,
            device_events,
            device_counters: recorded.device_counters,
            memory_labels,
            memory_label_times,
            dropped: recorded.dropped,
            open_elsewhere: recorded.open_elsewhere,
            kernels_told_twice,
            trace: TraceOptions::default(),
            tracks,
            contexts: recorded.contexts,
            devices: recorded.devices,
            rate: recorded.rate,
        }
    }

    /// Returns the description of a device, if a hook provided one.
    pub(crate) fn device(&self, number: u32) -> Option<&DeviceDescription> {
        self.devices.get(&number)
    }

    /// Returns `true` if the cycle contains no events.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        let is_unused = |track: &Track| track.event_count() == 0 && track.memory_event_count() == 0;
        self.device_events.is_empty() && self.tracks.iter().all(is_unused)
    }

    /// Returns the number of chunks of the recording's memory that the cycle holds: of events, and
    /// of allocations.
    #[doc(hidden)]
    pub fn chunk_counts(&self) -> (usize, usize) {
        let counts = self.tracks.iter();
        counts.fold((0, 0), |(events, memory), track| {
            (events + track.events.chunk_count(), memory + track.memory.chunk_count())
        })
    }

    /// Returns the threads in the order in which they began to record.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// Returns the number of events on all threads.
    #[doc(hidden)]
    pub fn event_count(&self) -> usize {
        self.tracks.iter().map(Track::event_count).sum()
    }

    /// Returns the duration of the cycle in nanoseconds.
    #[doc(hidden)]
    pub fn wall_nanoseconds(&self) -> u64 {
        self.nanoseconds_between(self.started, self.ended)
    }

    /// Returns the duration of the recording in nanoseconds, without pauses.
    #[doc(hidden)]
    pub fn recorded_nanoseconds(&self) -> u64 {
        self.wall_nanoseconds().saturating_sub(self.rate.nanoseconds(self.paused_ticks))
    }

    /// Returns the nanoseconds between two moments, or 0 if `to` is not later than `from`.
    #[doc(hidden)]
    pub fn nanoseconds_between(&self, from: Timestamp, to: Timestamp) -> u64 {
        self.rate.nanoseconds(to.ticks().saturating_sub(from.ticks()))
    }

    /// Converts a moment to nanoseconds since the beginning of the cycle. The result is negative
    /// for earlier moments.
    pub fn nanoseconds_since_start(&self, time: Timestamp) -> i64 {
        let (start, time) = (self.started.ticks(), time.ticks());
        if time >= start {
            self.rate.nanoseconds(time - start).cast_signed()
        } else {
            -self.rate.nanoseconds(start - time).cast_signed()
        }
    }

    /// Returns the maximum error of the time of a reading, in nanoseconds.
    pub(crate) fn error_of(&self, reading: &ClockReading) -> u64 {
        self.rate.nanoseconds(reading.ticks_apart).div_ceil(2)
    }

    /// Converts a moment to a wall-clock time.
    pub fn wall_time(&self, time: Timestamp) -> UtcTime {
        self.rate.wall_time(time.ticks())
    }

    /// Returns the actions that were open at an op's call site, outermost first, with their thread
    /// and step.
    #[doc(hidden)]
    pub fn context(&self, context: Context) -> Option<ContextActions<'_>> {
        let entry = self.contexts.get(context.number() as usize - 1)?;
        Some(ContextActions { step: entry.step, thread: entry.thread, actions: &entry.actions })
    }
}

/// Open actions at a call site: see [`Cycle::context`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextActions<'cycle> {
    /// Number of the step in its stage, counted from 0.
    pub step: u64,
    /// Id of the thread, as in [`Track::thread`].
    pub thread: u64,
    /// Open actions, outermost first.
    pub actions: &'cycle [Action],
}
