//! A finished recording, for those who read it.

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

/// One cycle of a [`Schedule`](mlprof_events::Schedule), recorded and over: what
/// `TensorProfiler::on_trace_ready` is given.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cycle {
    /// Which cycle of its stage, counted from 0.
    pub number: u64,
    /// The steps that were recorded, counted from 0 in their stage.
    pub steps: Range<u64>,
    /// Whether all active steps of the schedule are in it; a run that ends early leaves some out.
    pub is_complete: bool,
    /// The stage, if a trainer said one.
    pub stage: Option<Stage>,
    /// Rank and world size of the process.
    pub run: RunContext,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// When recording paused, as it does for a validation within a step: beginnings and ends in the
    /// order of time, at most the first 4,096.
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// What the machine's clocks showed at its beginning and at its end.
    #[doc(hidden)]
    pub clocks: [ClockReading; 2],
    /// What happened on devices, in the order in which it became known.
    pub device_events: Vec<DeviceEvent>,
    /// What devices' counters showed, in the order in which it became known.
    pub device_counters: Vec<CounterSample>,
    /// What is known of what memory is for.
    pub memory_labels: Vec<MemoryLabel>,
    /// When each of them was told.
    pub memory_label_times: Vec<Timestamp>,
    /// Events for which there was no room.
    pub dropped: Dropped,
    /// Scopes of other threads that were open at the end; they are not among the events.
    pub open_elsewhere: u64,
    /// Kernels that the driver told of, too, and that are shown as their framework saw them, because
    /// the two did not count alike.
    pub kernels_told_twice: u64,
    /// What its traces say beside what was recorded.
    pub trace: TraceOptions,
    tracks: Vec<Track>,
    contexts: Vec<OpenActions>,
    devices: BTreeMap<u32, DeviceDescription>,
    rate: Rate,
    paused_ticks: u64,
}

/// What one thread recorded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Track {
    /// The thread's name.
    pub thread_name: String,
    /// The number that the operating system knows the thread by.
    pub thread: u64,
    events: LogSnapshot<EVENT_WORDS>,
    memory: LogSnapshot<MEMORY_WORDS>,
    /// Calls of drivers, in the order of their ends.
    calls: Vec<Event>,
    /// What drivers allocated and freed for the thread, in the order of time.
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

    /// The events in the order in which they ended, so that what is inside comes before what is
    /// around it.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = Event> + '_ {
        InTimeOrder::new(&self.events, &self.calls, Event::from_words)
    }

    /// How many events there are.
    #[doc(hidden)]
    pub fn event_count(&self) -> usize {
        self.events.len() + self.calls.len()
    }

    /// What the thread allocated and freed, in that order.
    #[doc(hidden)]
    pub fn memory_events(&self) -> impl DoubleEndedIterator<Item = MemoryEvent> + '_ {
        InTimeOrder::new(&self.memory, &self.past_memory, |words| {
            Some(MemoryEvent::from_words(words))
        })
    }

    /// How many allocations and frees there are.
    #[doc(hidden)]
    pub fn memory_event_count(&self) -> usize {
        self.memory.len() + self.past_memory.len()
    }
}

/// Events, of whatever kind, for which there was no room, or that came after the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Dropped {
    /// Ops, actions and other scopes.
    pub events: u64,
    /// Allocations and frees.
    pub memory: u64,
    /// Kernels, copies, and samples of devices' counters.
    pub device: u64,
}

/// What a cycle is called, and which steps are in it.
#[derive(Debug)]
pub struct CycleName {
    /// As in [`Cycle::number`].
    pub number: u64,
    /// As in [`Cycle::steps`].
    pub steps: Range<u64>,
    /// As in [`Cycle::is_complete`].
    pub is_complete: bool,
    /// As in [`Cycle::stage`].
    pub stage: Option<Stage>,
    /// As in [`Cycle::run`].
    pub run: RunContext,
}

/// What a cycle is made of, as it was recorded.
#[derive(Debug)]
pub struct RecordedCycle {
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// As in [`Cycle::pauses`].
    pub pauses: Vec<(Timestamp, Timestamp)>,
    /// How long all pauses were, in ticks.
    pub paused_ticks: u64,
    /// As in [`Cycle::clocks`].
    pub clocks: [ClockReading; 2],
    /// In the order in which they began to record.
    pub threads: Vec<RecordedThread>,
    /// Calls of drivers, of all threads.
    pub driver_calls: Vec<DriverCall>,
    /// What drivers allocated and freed.
    pub past_memory: Vec<PastMemoryChange>,
    /// As in [`Cycle::device_events`].
    pub device_events: Vec<DeviceEvent>,
    /// As in [`Cycle::device_counters`].
    pub device_counters: Vec<CounterSample>,
    /// What memory is for, and when that was told.
    pub memory_labels: Vec<(MemoryLabel, Timestamp)>,
    /// As in [`Cycle::dropped`].
    pub dropped: Dropped,
    /// As in [`Cycle::open_elsewhere`].
    pub open_elsewhere: u64,
    /// What was open where ops were called, by [`Context::number`] − 1.
    pub contexts: Vec<OpenActions>,
    /// What is known of devices themselves.
    pub devices: BTreeMap<u32, DeviceDescription>,
    /// How ticks become seconds.
    pub rate: Rate,
}

/// What one thread recorded itself.
#[derive(Debug)]
pub struct RecordedThread {
    /// As in [`Track::thread_name`].
    pub name: String,
    /// As in [`Track::thread`].
    pub number: u64,
    /// What ran, in the order of the ends.
    pub events: LogSnapshot<EVENT_WORDS>,
    /// What was allocated and freed.
    pub memory: LogSnapshot<MEMORY_WORDS>,
}

impl RecordedThread {
    /// One that recorded nothing itself.
    fn of_number(number: u64) -> Self {
        let name = ThreadName::of_number(number).name;
        Self { name, number, events: LogSnapshot::empty(), memory: LogSnapshot::empty() }
    }
}

impl Cycle {
    /// The cycle that was recorded as these parts.
    #[doc(hidden)]
    pub fn new(name: CycleName, recorded: RecordedCycle) -> Self {
        let RecordedCycle { mut threads, mut device_events, .. } = recorded;
        let mut driver = by_thread(recorded.driver_calls, recorded.past_memory);
        // Threads that called a driver and did nothing else.
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

    /// What a hook has said of a device itself.
    pub(crate) fn device(&self, number: u32) -> Option<&DeviceDescription> {
        self.devices.get(&number)
    }

    /// Whether nothing happened in it.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        let is_unused = |track: &Track| track.event_count() == 0 && track.memory_event_count() == 0;
        self.device_events.is_empty() && self.tracks.iter().all(is_unused)
    }

    /// How many chunks of the recording's memory it keeps: of events, and of allocations.
    #[doc(hidden)]
    pub fn chunk_counts(&self) -> (usize, usize) {
        let counts = self.tracks.iter();
        counts.fold((0, 0), |(events, memory), track| {
            (events + track.events.chunk_count(), memory + track.memory.chunk_count())
        })
    }

    /// The threads, in the order in which they began to record.
    pub fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    /// How many events there are on all threads.
    #[doc(hidden)]
    pub fn event_count(&self) -> usize {
        self.tracks.iter().map(Track::event_count).sum()
    }

    /// How long it lasted, in nanoseconds.
    #[doc(hidden)]
    pub fn wall_nanoseconds(&self) -> u64 {
        self.nanoseconds_between(self.started, self.ended)
    }

    /// How long it recorded, in nanoseconds: without pauses.
    #[doc(hidden)]
    pub fn recorded_nanoseconds(&self) -> u64 {
        self.wall_nanoseconds().saturating_sub(self.rate.nanoseconds(self.paused_ticks))
    }

    /// From one moment to a later one, in nanoseconds; 0 if it is not later.
    #[doc(hidden)]
    pub fn nanoseconds_between(&self, from: Timestamp, to: Timestamp) -> u64 {
        self.rate.nanoseconds(to.ticks().saturating_sub(from.ticks()))
    }

    /// A moment in nanoseconds since the beginning of the cycle; negative before it.
    pub fn nanoseconds_since_start(&self, time: Timestamp) -> i64 {
        let (start, time) = (self.started.ticks(), time.ticks());
        if time >= start {
            self.rate.nanoseconds(time - start).cast_signed()
        } else {
            -self.rate.nanoseconds(start - time).cast_signed()
        }
    }

    /// By how much the moment of a reading may be wrong, in nanoseconds.
    pub(crate) fn error_of(&self, reading: &ClockReading) -> u64 {
        self.rate.nanoseconds(reading.ticks_apart).div_ceil(2)
    }

    /// A moment on the wall clock.
    pub fn wall_time(&self, time: Timestamp) -> UtcTime {
        self.rate.wall_time(time.ticks())
    }

    /// What was open where an op was called, the outermost first, and on which thread in which
    /// step.
    #[doc(hidden)]
    pub fn context(&self, context: Context) -> Option<ContextActions<'_>> {
        let entry = self.contexts.get(context.number() as usize - 1)?;
        Some(ContextActions { step: entry.step, thread: entry.thread, actions: &entry.actions })
    }
}

/// See [`Cycle::context`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextActions<'cycle> {
    /// The step, counted from 0 in its stage.
    pub step: u64,
    /// The thread, as in [`Track::thread`].
    pub thread: u64,
    /// What was open, the outermost first.
    pub actions: &'cycle [Action],
}
