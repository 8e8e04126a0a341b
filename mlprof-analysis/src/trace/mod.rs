//! A trace in memory: who did what from when to when, on which thread or stream.
//!
//! *Memory*: 48 bytes for each slice, 76 more for one that has shapes, bytes or numbers of its own, 56 for each
//! allocation; texts are kept once.

mod assemble;
mod builder;
mod category;
mod correlation;
mod crossing;
mod devices;
mod edges;
mod impossible;
mod memory;
mod message;
mod names;
mod nest;
mod open_slices;
mod raw;
mod room;
mod sides;

use std::ops::Range;

#[doc(hidden)]
pub use self::builder::TraceBuilder;
#[doc(hidden)]
pub use self::category::Category;
pub(crate) use self::correlation::Correlated;
use self::crossing::Crossings;
pub(crate) use self::crossing::Stretches;
#[doc(hidden)]
pub use self::edges::Edge;
pub(crate) use self::impossible::Impossible;
#[doc(hidden)]
pub use self::memory::MemoryChange;
#[doc(hidden)]
pub use self::message::Message;
pub(crate) use self::names::ByName;
#[doc(hidden)]
pub use self::names::{Name, Names};
pub(crate) use self::names::{STEP, without_library_prefix};
#[doc(hidden)]
pub use self::raw::{FlowEnd, PlaceId, RawSlice};

/// No slice, no details.
pub(crate) const NONE: u32 = u32::MAX;

/// Everything that has a duration in a trace, what leads from one to another, and counters.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace {
    /// What the trace says of itself.
    pub info: Info,
    /// Its texts.
    pub names: Names,
    /// Its processes, and devices, which stand as processes in traces.
    pub processes: Vec<Process>,
    /// Its threads, and streams of devices, in the order of the trace.
    pub tracks: Vec<Track>,
    /// Track by track, in the order of their beginnings; what is around something comes before it.
    pub slices: Vec<Slice>,
    /// What some of them have besides.
    pub details: Vec<Details>,
    /// Arrows.
    pub flows: Vec<Flow>,
    /// Counters, by their time.
    pub counters: Vec<Counter>,
    /// What was allocated and freed, by its time, where the trace was
    /// read for XProf.
    pub memory: Vec<MemoryChange>,
    crossings: Crossings,
}

/// What a trace says of itself.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// The number of the process among those that train together.
    pub rank: u32,
    /// Whether the trace states its rank; otherwise `rank` is 0, or was given.
    pub has_rank: bool,
    /// How many train together.
    pub world_size: u32,
    /// The machine's name.
    pub host: Option<String>,
    /// The stage that was recorded: `fit`, `validate`, …
    pub stage: Option<String>,
    /// The number of the recorded cycle.
    pub cycle: u64,
    /// Nanoseconds of Unix time at the zero of the trace's time.
    pub base_ns: i64,
    /// What the machine calls the time since it was started. Who has the same shares its monotonic clock.
    pub boot_id: Option<String>,
    /// What the machine's clocks showed at some moments.
    pub clocks: Vec<ClockReading>,
    /// When recording paused, as it does for a validation within an epoch: beginnings and ends in
    /// nanoseconds of the trace's own time, in order. Only traces and tables of mlprof list them.
    pub pauses: Vec<(i64, i64)>,
    /// Devices that the trace describes, whether anything ran on them or not.
    pub devices: Vec<DeviceInfo>,
    /// Events that the recorder had no room for, by its own word.
    pub dropped: u64,
    /// Events of the file, whether they were understood or not; 0 if it is not known.
    pub events: u64,
    /// Events that should be in the trace and are not.
    pub not_understood: u64,
    /// Sentences on what the trace lacks, and on what of its file is not as it should be.
    pub notes: Vec<String>,
    /// Why the end of the trace is missing, if it is.
    pub cut_short: Option<String>,
}

impl Info {
    /// Ranks and world sizes beyond are damage: a list of missing ranks would fill the memory.
    pub const MOST_RANKS: u32 = 1 << 20;

    /// Whether more than half of the file's events could not be read.
    pub fn is_mostly_unreadable(&self) -> bool {
        self.not_understood > self.events / 2 && self.events > 0
    }

    /// What tables keep: they know each rank, and little of the file that a trace was read from.
    pub fn kept_in_tables(&self) -> Self {
        Self { has_rank: true, devices: Vec::new(), notes: Vec::new(), ..self.clone() }
    }
}

/// A device as the recorder describes it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The device's number.
    pub number: u32,
    /// The product's name, such as `NVIDIA H100 80GB HBM3`; empty if it is not known.
    pub name: String,
    /// The device's memory in bytes; 0 if it is not known.
    pub memory: u64,
}

/// What the machine's clocks showed at one moment, in nanoseconds.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockReading {
    /// The moment, in the trace's own time.
    pub time: i64,
    /// The wall clock: Unix time.
    pub realtime: i64,
    /// The clock that nobody sets.
    pub monotonic: Option<i64>,
    /// By how much `time` may be wrong.
    pub error: i64,
}

/// A process or a device.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Its number; what is known by a text (`Spans`) has none.
    pub number: Option<i64>,
    /// What it is called.
    pub name: Name,
    /// What is said beside it: `CPU`, `GPU 0`.
    pub labels: Name,
}

/// What a track is of.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackKind {
    /// A thread.
    Thread,
    /// A stream of a device.
    Stream,
    /// Something else that a recorder drew.
    Other,
}

/// A thread, or a stream of a device.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Its process, or its device.
    pub process: u32,
    /// The number of the thread or stream.
    pub number: Option<i64>,
    /// What it is called.
    pub name: Name,
    /// What it is of.
    pub kind: TrackKind,
    /// Where slices stand that cross others of this track: the track that they cross.
    pub overlaps: Option<u32>,
    /// Its slices.
    pub slices: Range<usize>,
    pub(crate) sort_index: i64,
}

/// From a beginning to an end, on a track.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// In nanoseconds of the trace's own time.
    pub start: i64,
    /// In nanoseconds.
    pub duration: i64,
    /// The time in which the slice is the innermost one of its track, in nanoseconds. Where slices
    /// of a thread cross, on several tracks, it is the innermost one of the thread.
    pub self_duration: i64,
    /// What happened.
    pub name: Name,
    /// In [`Trace::tracks`].
    pub track: u32,
    /// What ties launches to what they launched; 0 if there is nothing.
    pub correlation: u32,
    pub(crate) parent: u32,
    pub(crate) details: u32,
    /// What kind of thing happened.
    pub category: Category,
    /// How many slices are around it.
    pub depth: u16,
}

impl Slice {
    /// When it ended.
    pub fn end(&self) -> i64 {
        self.start.saturating_add(self.duration)
    }

    /// The place in [`Trace::slices`] of the one directly around it. It may be on another track of
    /// the same thread.
    pub fn parent(&self) -> Option<usize> {
        (self.parent != NONE).then_some(self.parent as usize)
    }
}

/// What only some slices have.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Details {
    /// What ties forward to backward ops; 0 if there is nothing.
    pub sequence: u64,
    /// Sizes of inputs, as in the trace.
    pub shapes: Name,
    /// Bytes moved.
    pub bytes: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// What was open where it was called, if that was on another thread: `outer;inner`.
    pub called_from: Name,
    /// Its number among the collectives of the run, if it is one: all ranks count alike.
    pub collective: Option<u64>,
    /// The stream that was waited for, if it is known; of a stream that waits for an event, which it is itself.
    pub stream: Option<i32>,
    /// The event that was waited for.
    pub event: EventWait,
    /// How a kernel was launched: `regs:32 static_shared:0 dynamic_shared:0 grid:108,1,1 block:256,1,1
    /// occ_pct:50`, as XProf has it, where the trace was [read for it](crate::kineto::read_for_xprof).
    pub launch: Name,
    /// The message of a collective, as JSON of a [`Message`]; empty if it is not known.
    pub message: Name,
}

/// An event of a device's library, which a thread or a stream waits for, as far as it is known.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventWait {
    /// The stream that it was recorded on.
    pub stream: Option<i32>,
    /// The [`Slice::correlation`] of the call that recorded it; 0 if it is not known.
    pub recorded_by: u32,
}

impl Default for Name {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// What an arrow means.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowKind {
    /// From a forward op to its backward op.
    ForwardBackward,
    /// From a launch to what it launched.
    Launch,
    /// Anything else.
    Other,
}

/// An arrow, from one slice to another: places in [`Trace::slices`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// What it means.
    pub kind: FlowKind,
    /// Where it begins.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
}

/// A counter at a moment.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter {
    /// In nanoseconds of the trace's own time.
    pub time: i64,
    /// Whose, in [`Trace::processes`].
    pub process: u32,
    /// What is counted.
    pub name: Name,
    /// How much.
    pub value: f64,
}

impl Trace {
    /// What a slice is called.
    #[doc(hidden)]
    pub fn name(&self, slice: &Slice) -> &str {
        self.names.text(slice.name)
    }

    /// What a slice has besides, if it has.
    #[doc(hidden)]
    pub fn details(&self, slice: &Slice) -> Option<&Details> {
        self.details.get(slice.details as usize)
    }

    /// Time of slices that cross others of their thread, in nanoseconds. It belongs to the
    /// innermost slice that is open at each moment.
    #[doc(hidden)]
    pub fn crossing_ns(&self) -> i64 {
        self.crossings.duration
    }

    /// Stretches of a thread on which slices cross, with the innermost slice of each; `None` if
    /// they do not.
    pub(crate) fn crossing(&self, track: usize) -> Option<&[(i64, i64, u32)]> {
        self.crossings.of_track(track).map(Vec::as_slice)
    }

    /// Places of all slices, parents before what is inside of them.
    pub(crate) fn parents_first(&self) -> impl Iterator<Item = usize> {
        self.crossings.parents_first(self.slices.len())
    }

    /// The slices of a track.
    #[doc(hidden)]
    pub fn of_track(&self, track: &Track) -> &[Slice] {
        &self.slices[track.slices.clone()]
    }

    /// What a slice is inside of, from the innermost to the outermost.
    #[doc(hidden)]
    pub fn around(&self, slice: &Slice) -> impl Iterator<Item = &Slice> {
        let next = |slice: &Slice| slice.parent().map(|place| &self.slices[place]);
        std::iter::successors(next(slice), move |slice| next(slice))
    }

    /// Returns a value for each slice, made of the value of the slice directly around it, or of
    /// `outside` where there is none. However deep slices are nested, each is visited once.
    pub(crate) fn inherited<T: Copy>(
        &self,
        outside: T,
        of: impl Fn(usize, &Slice, T) -> T,
    ) -> Vec<T> {
        let mut values = vec![outside; self.slices.len()];
        for place in self.parents_first() {
            let slice = &self.slices[place];
            let around = slice.parent().map_or(outside, |around| values[around]);
            values[place] = of(place, slice, around);
        }
        values
    }

    /// From the first beginning to the last end; `None` if nothing happened.
    #[doc(hidden)]
    pub fn window(&self) -> Option<(i64, i64)> {
        let start = self.slices.iter().map(|slice| slice.start).min()?;
        let end = self.slices.iter().map(Slice::end).max()?;
        Some((start, end))
    }

    /// The tracks of this kind, with their places; without those of what crosses others.
    #[doc(hidden)]
    pub fn tracks_of(&self, kind: TrackKind) -> impl Iterator<Item = (usize, &Track)> {
        let is_it = move |track: &Track| track.kind == kind && track.overlaps.is_none();
        self.tracks.iter().enumerate().filter(move |(_, track)| is_it(track))
    }

    /// What a track is called, with its device where it is a stream.
    #[doc(hidden)]
    pub fn track_name(&self, track: usize) -> String {
        let track = &self.tracks[track];
        let own = self.names.text(track.name);
        let process = &self.processes[track.process as usize];
        match (track.kind, process.number) {
            (TrackKind::Stream, Some(device)) => format!("{own} of GPU {device}"),
            _ => own.to_owned(),
        }
    }

    /// The number of the device that a slice stands on; -1 if it has none.
    pub(crate) fn device_of(&self, slice: &Slice) -> i64 {
        let process = self.tracks[slice.track as usize].process;
        self.processes[process as usize].number.unwrap_or(-1)
    }
}
