//! Builder of traces, independent of the input format.

use rustc_hash::FxHashMap;

use super::OpWork;
use super::assemble::{KnownTracks, add_track, flows};
use super::raw::{FlowEnd, PlaceId, RawProcess, RawSlice, RawTrack};
use super::{
    Counter, Details, Flow, FlowKind, Impossible, Info, MemoryChange, NONE, Name, Names, Process,
    Slice, Trace, TrackKind, crossing, impossible, sides,
};

/// First correlation id that replaces an id of more than 31 bits.
const FIRST_LONG: u32 = 1 << 31;

/// Builder that collects slices, arrows and counters.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// Metadata of the trace.
    pub info: Info,
    /// Interned strings of the trace.
    pub names: Names,
    /// Distinct works of ops.
    pub works: Vec<OpWork>,
    /// Enables data that only XProf's format supports: allocations and launch configurations of
    /// kernels.
    pub is_for_xprof: bool,
    pub(super) processes: Vec<RawProcess>,
    process_numbers: FxHashMap<PlaceId, u32>,
    pub(super) tracks: Vec<RawTrack>,
    track_numbers: FxHashMap<(u32, PlaceId), u32>,
    /// Track of the last event, cached because the next event is usually on the same track.
    last: Option<(PlaceId, PlaceId, u32)>,
    /// Replacements for correlation ids of more than 31 bits.
    long_correlations: FxHashMap<u64, u32>,
    pub(super) slices: Vec<Slice>,
    details: Vec<Details>,
    flow_ends: Vec<FlowEnd>,
    flows: Vec<Flow>,
    /// Arrows whose slices are identified by their insertion order.
    flows_as_added: Vec<Flow>,
    counters: Vec<Counter>,
    memory: Vec<MemoryChange>,
}

impl TraceBuilder {
    /// Returns the index of a process and adds it if it is new.
    pub fn process(&mut self, id: &PlaceId) -> u32 {
        if let Some(number) = self.process_numbers.get(id) {
            return *number;
        }
        let number = self.processes.len() as u32; // fewer than events
        let name = match id {
            PlaceId::Text(text) => self.names.intern(text),
            PlaceId::Number(_) => Name::EMPTY,
        };
        let process = Process { number: id.number(), name, labels: Name::EMPTY };
        self.processes.push(RawProcess { process, device_labels: Name::EMPTY, id: id.clone() });
        self.process_numbers.insert(id.clone(), number);
        number
    }

    /// Adds a process and returns its index. Another process may have the same number.
    #[cfg(feature = "parquet")]
    pub(crate) fn add_process(&mut self, number: Option<i64>) -> u32 {
        let place = self.processes.len() as u32; // fewer than events
        let process = Process { number, name: Name::EMPTY, labels: Name::EMPTY };
        let id = PlaceId::Text("".into());
        self.processes.push(RawProcess { process, device_labels: Name::EMPTY, id });
        place
    }

    /// Returns the index of a track and adds it if it is new.
    pub fn track(&mut self, process: &PlaceId, thread: &PlaceId) -> u32 {
        if let Some((_, _, number)) =
            self.last.as_ref().filter(|(one, other, _)| one == process && other == thread)
        {
            return *number;
        }
        let of = self.process(process);
        let number = self.track_of(of, thread);
        self.last = Some((process.clone(), thread.clone(), number));
        number
    }

    /// Returns the index of a track of the process with index `of`, and adds it if it is new.
    pub fn track_of(&mut self, of: u32, thread: &PlaceId) -> u32 {
        let next = self.tracks.len() as u32; // fewer than events
        let number = *self.track_numbers.entry((of, thread.clone())).or_insert(next);
        if number == next {
            let name = match thread {
                PlaceId::Text(text) => self.names.intern(text),
                PlaceId::Number(_) => Name::EMPTY,
            };
            self.tracks.push(RawTrack {
                process: of,
                id: thread.clone(),
                name,
                ..RawTrack::default()
            });
        }
        number
    }

    /// Sets the kind of a track.
    pub fn set_kind(&mut self, track: u32, kind: TrackKind) {
        self.tracks[track as usize].kind = Some(kind);
    }

    /// Sets the name of a process.
    pub fn name_process(&mut self, process: u32, name: &str) {
        self.processes[process as usize].process.name = self.names.intern(name);
    }

    /// Sets the label of a process. A label that begins with `GPU` belongs to the device with the
    /// same number.
    pub fn label_process(&mut self, process: u32, labels: &str) {
        let is_device = labels.starts_with("GPU");
        let labels = self.names.intern(labels);
        let raw = &mut self.processes[process as usize];
        *if is_device { &mut raw.device_labels } else { &mut raw.process.labels } = labels;
    }

    /// Returns the [`Slice::correlation`] for an id of up to 64 bits. Ids below 2³¹ remain
    /// unchanged.
    pub(crate) fn correlation(&mut self, id: u64) -> u32 {
        match u32::try_from(id) {
            Ok(id) if id < FIRST_LONG => id,
            _ => {
                let next = FIRST_LONG + self.long_correlations.len() as u32; // fewer than slices
                *self.long_correlations.entry(id).or_insert(next)
            }
        }
    }

    /// Sets the name of a track.
    pub fn name_track(&mut self, track: u32, name: &str) {
        self.tracks[track as usize].name = self.names.intern(name);
    }

    /// Sets the sort index of a track.
    pub fn sort_track(&mut self, track: u32, index: i64) {
        self.tracks[track as usize].sort_index = Some(index);
    }

    /// Adds a slice.
    pub fn slice(&mut self, slice: RawSlice) {
        let track = &mut self.tracks[slice.track as usize];
        track.has_device_work |= slice.category.is_on_device();
        track.has_host_work |= slice.category.is_on_host();
        track.slices += 1;
        let details = match slice.details == Details::default() {
            true => NONE,
            false => {
                self.details.push(slice.details);
                self.details.len() as u32 - 1 // fewer than slices
            }
        };
        self.slices.push(Slice {
            start: slice.start,
            duration: slice.duration.max(0),
            self_duration: 0,
            name: slice.name,
            track: slice.track,
            correlation: slice.correlation,
            // Until the slices are nested, this field holds the slice's insertion number.
            parent: self.slices.len() as u32, // fewer than 2^32
            details,
            category: slice.category,
            depth: 0,
        });
    }

    /// Returns `true` if the builder has no slices.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Removes slices with impossible times and returns their number.
    pub(crate) fn remove_impossible(&mut self) -> Impossible {
        impossible::remove(&mut self.slices, &mut self.counters)
    }

    /// Adds one end of an arrow.
    pub fn flow_end(&mut self, end: FlowEnd) {
        self.flow_ends.push(end);
    }

    /// Adds an arrow between slices, identified by their final indices in the trace.
    pub fn flow(&mut self, flow: Flow) {
        self.flows.push(flow);
    }

    /// Adds an arrow between slices, identified by their insertion order from 0.
    pub fn flow_as_added(&mut self, flow: Flow) {
        self.flows_as_added.push(flow);
    }

    /// Adds a counter value.
    pub fn counter(&mut self, counter: Counter) {
        self.counters.push(counter);
    }

    /// Adds an allocation or a free. Its track is a number from [`track`](Self::track).
    pub fn memory(&mut self, change: MemoryChange) {
        self.memory.push(change);
    }

    /// Assembles the trace.
    pub fn finish(mut self) -> Trace {
        self.counters.sort_by_key(|counter| counter.time);
        self.memory.sort_by_key(|change| change.time);
        self.note_sides();
        let twins = sides::split(&mut self.tracks, &mut self.slices);
        let kinds: Vec<TrackKind> = self.tracks.iter().map(|track| self.kind(track)).collect();
        self.split_processes(&kinds);
        let mut order: Vec<usize> = (0..self.tracks.len()).collect();
        // Devices follow threads, and devices without a sort index come last.
        order.sort_by_key(|place| {
            let track = &self.tracks[*place];
            let is_on_device = kinds[*place] == TrackKind::Stream;
            let process = &self.processes[track.process as usize].process;
            let process = is_on_device.then_some(process.number);
            (is_on_device, process, track.sort_index.unwrap_or(i64::MAX))
        });
        // These are the final indices of slices by insertion number, collected only if an arrow
        // needs them.
        let is_asked = !self.flows_as_added.is_empty();
        let mut places = vec![NONE; if is_asked { self.slices.len() } else { 0 }];
        let mut by_track: Vec<Vec<Slice>> =
            self.tracks.iter().map(|track| Vec::with_capacity(track.slices)).collect();
        for slice in std::mem::take(&mut self.slices) {
            by_track[slice.track as usize].push(slice);
        }
        let mut trace = Trace {
            info: self.info,
            names: self.names,
            works: self.works,
            processes: self.processes.into_iter().map(|raw| raw.process).collect(),
            tracks: Vec::new(),
            slices: Vec::with_capacity(by_track.iter().map(Vec::len).sum()),
            details: self.details,
            flows: Vec::new(),
            counters: self.counters,
            memory: self.memory,
            crossings: crossing::Crossings::default(),
        };
        let mut known = KnownTracks::default();
        // These are the final track numbers of raw tracks that have slices.
        let mut new_numbers = vec![NONE; self.tracks.len()];
        for place in order {
            let slices = std::mem::take(&mut by_track[place]);
            if !slices.is_empty() {
                new_numbers[place] = trace.tracks.len() as u32;
                let (raw, kind) = (&self.tracks[place], kinds[place]);
                add_track(&mut trace, raw, kind, slices, &mut places, &mut known);
            }
        }
        for end in &mut self.flow_ends {
            let twin = twins.get(&end.track).filter(|_| end.is_end && end.kind == FlowKind::Launch);
            end.track = twin.copied().unwrap_or(end.track);
        }
        trace.flows = flows(&trace, self.flow_ends, &new_numbers);
        crossing::tie(&mut trace);
        for change in &mut trace.memory {
            let raw = change.track.map(|raw| new_numbers[raw as usize]);
            change.track = raw.filter(|number| *number != NONE);
        }
        let count = trace.slices.len() as u32; // fewer than events
        let known = self.flows.into_iter().filter(|flow| flow.from < count && flow.to < count);
        trace.flows.extend(known);
        let placed = self.flows_as_added.into_iter().filter_map(|flow| {
            let place = |number: u32| places.get(number as usize).copied();
            Some(Flow { from: place(flow.from)?, to: place(flow.to)?, ..flow })
        });
        trace.flows.extend(placed);
        trace
    }

    fn kind(&self, track: &RawTrack) -> TrackKind {
        if let Some(kind) = track.kind {
            return kind;
        }
        let raw = &self.processes[track.process as usize];
        let is_device = raw.device_labels != Name::EMPTY && !track.has_host_work;
        match (track.has_device_work || is_device, &raw.process.number) {
            (true, _) => TrackKind::Stream,
            (false, Some(_)) => TrackKind::Thread,
            // PyTorch draws the recorded time span on such a track.
            (false, None) if matches!(&track.id, PlaceId::Text(_)) => TrackKind::Other,
            (false, None) => TrackKind::Thread,
        }
    }

    /// Splits each process that contains both threads and streams, and assigns the labels.
    fn split_processes(&mut self, kinds: &[TrackKind]) {
        let mut sides = vec![(false, false); self.processes.len()];
        for (track, kind) in self.tracks.iter().zip(kinds).filter(|(track, _)| track.slices > 0) {
            let (has_threads, has_streams) = &mut sides[track.process as usize];
            *has_threads |= *kind == TrackKind::Thread;
            *has_streams |= *kind == TrackKind::Stream;
        }
        let mut devices = FxHashMap::default();
        for (place, (has_threads, has_streams)) in sides.into_iter().enumerate() {
            let raw = &self.processes[place];
            let number = raw.process.number.or_else(|| raw.id.device_number());
            let labels = raw.device_labels;
            match (has_threads, has_streams) {
                (true, true) => {
                    let process = Process { number, name: raw.process.name, labels };
                    devices.insert(place as u32, self.processes.len() as u32); // fewer than events
                    let id = raw.id.clone();
                    self.processes.push(RawProcess { process, device_labels: labels, id });
                }
                // The label belongs to a device that happens to have the number of this process.
                (true, false) => {}
                (false, true) => {
                    let process = &mut self.processes[place].process;
                    process.number = number;
                    process.labels = if labels == Name::EMPTY { process.labels } else { labels };
                }
                (false, false) => {
                    let process = &mut self.processes[place].process;
                    process.labels = if labels == Name::EMPTY { process.labels } else { labels };
                }
            }
        }
        for (track, kind) in self.tracks.iter_mut().zip(kinds) {
            if let (TrackKind::Stream, Some(device)) = (kind, devices.get(&track.process)) {
                track.process = *device;
            }
        }
    }
}
