//! In-memory representation of a trace: slices on threads and streams, flow arrows and counters.
//!
//! *Memory*: 48 bytes per slice, 76 more for a slice with shapes, bytes or numbers, and 56 per
//! allocation. Strings are interned.

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
mod op_work;
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
pub use self::op_work::OpWork;
#[doc(hidden)]
pub use self::raw::{FlowEnd, PlaceId, RawSlice};

/// Index that means "no slice" or "no details".
pub(crate) const NONE: u32 = u32::MAX;

/// A trace: slices, flow arrows between slices, and counters.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace {
    /// Metadata of the trace.
    pub info: Info,
    /// Interned strings of the trace.
    pub names: Names,
    /// Processes of the trace. Devices are also processes.
    pub processes: Vec<Process>,
    /// Threads and device streams, in the order of the trace.
    pub tracks: Vec<Track>,
    /// Slices of all tracks. Within a track they are sorted by start, and parents precede their
    /// children.
    pub slices: Vec<Slice>,
    /// Optional details of slices.
    pub details: Vec<Details>,
    /// Distinct works of ops, to which [`Details::work`] refers.
    #[doc(hidden)]
    pub works: Vec<OpWork>,
    /// Flow arrows.
    pub flows: Vec<Flow>,
    /// Counter values in order of time.
    pub counters: Vec<Counter>,
    /// Allocations and frees in order of time, if the trace was read for XProf.
    pub memory: Vec<MemoryChange>,
    crossings: Crossings,
}

/// Metadata of a trace.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    /// Rank of the process in the training job.
    pub rank: u32,
    /// `true` if the trace states its rank. Otherwise `rank` is 0 or was given by the user.
    pub has_rank: bool,
    /// Number of ranks in the training job.
    pub world_size: u32,
    /// Host name of the machine.
    pub host: Option<String>,
    /// Recorded stage: `fit`, `validate`, …
    pub stage: Option<String>,
    /// Number of the recorded cycle.
    pub cycle: u64,
    /// Unix time in nanoseconds at which the trace's own time is zero.
    pub base_ns: i64,
    /// Boot id of the machine. Traces with the same boot id share a monotonic clock.
    pub boot_id: Option<String>,
    /// Readings of the machine's clocks.
    pub clocks: Vec<ClockReading>,
    /// Recording pauses, for example for a validation within an epoch. Each is a start and end in
    /// nanoseconds of the trace's own time, in order. Only traces and tables of mlprof contain
    /// them.
    pub pauses: Vec<(i64, i64)>,
    /// Devices described in the trace, including unused ones.
    pub devices: Vec<DeviceInfo>,
    /// Number of events that the recorder dropped, as stated in the trace.
    pub dropped: u64,
    /// Number of events in the file, readable or not. 0 if it is unknown.
    pub events: u64,
    /// Number of events that should be in the trace but are missing.
    pub not_understood: u64,
    /// Sentences about missing data and defects of the file.
    pub notes: Vec<String>,
    /// Reason why the end of the trace is missing, if it is.
    pub cut_short: Option<String>,
}

impl Info {
    /// Largest accepted rank and world size. Larger values indicate a damaged file, and a list of
    /// the missing ranks would exhaust memory.
    pub const MOST_RANKS: u32 = 1 << 20;

    /// Returns `true` if more than half of the file's events could not be read.
    pub fn is_mostly_unreadable(&self) -> bool {
        self.not_understood > self.events / 2 && self.events > 0
    }

    /// Returns the metadata that tables keep. Tables always have a rank, but they lack the devices
    /// and the notes of the original file.
    pub fn kept_in_tables(&self) -> Self {
        Self { has_rank: true, devices: Vec::new(), notes: Vec::new(), ..self.clone() }
    }
}

/// Device as described by the recorder.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Device id.
    pub number: u32,
    /// Product name, such as `NVIDIA H100 80GB HBM3`. Empty if it is unknown.
    pub name: String,
    /// Device memory in bytes. 0 if it is unknown.
    pub memory: u64,
}

/// Simultaneous readings of the machine's clocks in nanoseconds.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockReading {
    /// Time in the trace's own time.
    pub time: i64,
    /// Wall clock as Unix time.
    pub realtime: i64,
    /// Monotonic clock.
    pub monotonic: Option<i64>,
    /// Uncertainty of `time` in nanoseconds.
    pub error: i64,
}

/// A process or a device.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct Process {
    /// Process id or device id. `None` for a process with a text id such as `Spans`.
    pub number: Option<i64>,
    /// Name of the process.
    pub name: Name,
    /// Label of the process: `CPU`, `GPU 0`.
    pub labels: Name,
}

/// Kind of a track.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrackKind {
    /// A thread.
    Thread,
    /// A stream of a device.
    Stream,
    /// Another track drawn by the recorder.
    Other,
}

/// A thread, or a stream of a device.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq)]
pub struct Track {
    /// Index of the process or device.
    pub process: u32,
    /// Number of the thread or stream.
    pub number: Option<i64>,
    /// Name of the track.
    pub name: Name,
    /// Kind of the track.
    pub kind: TrackKind,
    /// Track that contains the slices crossed by this track's slices. `None` for the first track of
    /// a thread or stream.
    pub overlaps: Option<u32>,
    /// Range of the track's slices in [`Trace::slices`].
    pub slices: Range<usize>,
    pub(crate) sort_index: i64,
}

/// Time span with a name on a track.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slice {
    /// Start in nanoseconds of the trace's own time.
    pub start: i64,
    /// Duration in nanoseconds.
    pub duration: i64,
    /// Self time in nanoseconds, in which the slice is the innermost one of its track. If slices of
    /// a thread cross on several tracks, it is the innermost one of the thread.
    pub self_duration: i64,
    /// Name of the slice.
    pub name: Name,
    /// Index of the track in [`Trace::tracks`].
    pub track: u32,
    /// Correlation id that links a launch to its work. 0 if there is none.
    pub correlation: u32,
    pub(crate) parent: u32,
    pub(crate) details: u32,
    /// Category of the slice.
    pub category: Category,
    /// Number of enclosing slices, at most [`u16::MAX`].
    pub depth: u16,
}

impl Slice {
    /// Returns the end in nanoseconds of the trace's own time.
    pub fn end(&self) -> i64 {
        self.start.saturating_add(self.duration)
    }

    /// Returns the index in [`Trace::slices`] of the directly enclosing slice. It may be on another
    /// track of the same thread.
    pub fn parent(&self) -> Option<usize> {
        (self.parent != NONE).then_some(self.parent as usize)
    }
}

/// Details that only some slices have.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Details {
    /// Sequence number that links forward and backward ops. 0 if there is none.
    pub sequence: u64,
    /// Input shapes as written in the trace.
    pub shapes: Name,
    /// Number of moved bytes.
    pub bytes: u64,
    /// Number of floating-point operations.
    pub flops: u64,
    /// Index in [`Trace::works`] of the work computed from the inputs.
    pub work: Option<u32>,
    /// Open slices at the call site if it was on another thread: `outer;inner`.
    pub called_from: Name,
    /// Sequence number of a collective. All ranks count alike.
    pub collective: Option<u64>,
    /// Stream that was waited for, if it is known. If a stream waits for an event, this is the
    /// waiting stream itself.
    pub stream: Option<i32>,
    /// Event that was waited for.
    pub event: EventWait,
    /// Launch configuration of a kernel in XProf's format: `regs:32 static_shared:0
    /// dynamic_shared:0 grid:108,1,1 block:256,1,1 occ_pct:50`. It requires a trace [read for
    /// XProf](crate::kineto::read_for_xprof).
    pub launch: Name,
    /// Message of a collective as JSON of a [`Message`]. Empty if it is unknown.
    pub message: Name,
}

/// Event of a device's library that a thread or stream waited for, as far as it is known.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventWait {
    /// Stream on which the event was recorded.
    pub stream: Option<i32>,
    /// [`Slice::correlation`] of the call that recorded the event. 0 if it is unknown.
    pub recorded_by: u32,
}

impl Default for Name {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Meaning of a flow arrow.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowKind {
    /// Arrow from a forward op to its backward op.
    ForwardBackward,
    /// Arrow from a launch call to its work.
    Launch,
    /// Any other arrow.
    Other,
}

/// Flow arrow between two slices, given by their indices in [`Trace::slices`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Meaning of the arrow.
    pub kind: FlowKind,
    /// Slice at which the arrow begins.
    pub from: u32,
    /// Slice at which the arrow ends.
    pub to: u32,
}

/// Counter value at a moment.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counter {
    /// Time in nanoseconds of the trace's own time.
    pub time: i64,
    /// Index of the process in [`Trace::processes`].
    pub process: u32,
    /// Name of the counter.
    pub name: Name,
    /// Value of the counter.
    pub value: f64,
}

impl Trace {
    /// Returns the name of a slice.
    #[doc(hidden)]
    pub fn name(&self, slice: &Slice) -> &str {
        self.names.text(slice.name)
    }

    /// Returns the details of a slice, if it has any.
    #[doc(hidden)]
    pub fn details(&self, slice: &Slice) -> Option<&Details> {
        self.details.get(slice.details as usize)
    }

    /// Returns the work of a slice, computed from its inputs, or else as written in the trace.
    #[doc(hidden)]
    pub fn work(&self, slice: &Slice) -> OpWork {
        let Some(details) = self.details(slice) else { return OpWork::default() };
        let computed = details.work.and_then(|work| self.works.get(work as usize));
        let written = |number: u64| (number > 0).then_some(number);
        computed.copied().unwrap_or_else(|| OpWork {
            flops: written(details.flops),
            bytes: written(details.bytes),
            dtype: None,
        })
    }

    /// Returns the time of slices that cross others of their thread, in nanoseconds. Each moment
    /// belongs to the innermost open slice.
    #[doc(hidden)]
    pub fn crossing_ns(&self) -> i64 {
        self.crossings.duration
    }

    /// Returns the stretches of a thread with crossing slices, each with its innermost slice.
    /// `None` if no slices cross on the thread.
    pub(crate) fn crossing(&self, track: usize) -> Option<&[(i64, i64, u32)]> {
        self.crossings.of_track(track).map(Vec::as_slice)
    }

    /// Returns the indices of all slices, parents before children.
    pub(crate) fn parents_first(&self) -> impl Iterator<Item = usize> {
        self.crossings.parents_first(self.slices.len())
    }

    /// Returns the slices of a track.
    #[doc(hidden)]
    pub fn of_track(&self, track: &Track) -> &[Slice] {
        &self.slices[track.slices.clone()]
    }

    /// Returns the enclosing slices of a slice, innermost first.
    #[doc(hidden)]
    pub fn around(&self, slice: &Slice) -> impl Iterator<Item = &Slice> {
        let next = |slice: &Slice| slice.parent().map(|place| &self.slices[place]);
        std::iter::successors(next(slice), move |slice| next(slice))
    }

    /// Returns a value for each slice, computed from the value of its parent, or from `outside` if
    /// it has no parent. Each slice is visited once, regardless of the nesting depth.
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

    /// Returns the first start and the last end. `None` if the trace has no slices.
    #[doc(hidden)]
    pub fn window(&self) -> Option<(i64, i64)> {
        let start = self.slices.iter().map(|slice| slice.start).min()?;
        let end = self.slices.iter().map(Slice::end).max()?;
        Some((start, end))
    }

    /// Returns the tracks of this kind with their indices, except tracks of crossing slices.
    #[doc(hidden)]
    pub fn tracks_of(&self, kind: TrackKind) -> impl Iterator<Item = (usize, &Track)> {
        let is_it = move |track: &Track| track.kind == kind && track.overlaps.is_none();
        self.tracks.iter().enumerate().filter(move |(_, track)| is_it(track))
    }

    /// Returns the name of a track. For a stream, it includes the device.
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

    /// Returns the device id of a slice, or -1 if it has none.
    pub(crate) fn device_of(&self, slice: &Slice) -> i64 {
        let process = self.tracks[slice.track as usize].process;
        self.processes[process as usize].number.unwrap_or(-1)
    }
}
