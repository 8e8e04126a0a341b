//! A trace is put together, whatever it is read from.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{
    Category, Counter, Details, Flow, FlowKind, Info, MemoryChange, NONE, Name, Names, Process,
    Slice, Trace, Track, TrackKind, nest,
};

/// How a process or thread is known: mostly by a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlaceId {
    /// A number.
    Number(i64),
    /// A text, such as `Spans`.
    Text(Arc<str>),
}

impl PlaceId {
    fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

/// A slice as it is read: in no order.
#[derive(Debug, Clone, Copy)]
pub struct RawSlice {
    /// Where it stands: a number from [`TraceBuilder::track`].
    pub track: u32,
    /// What happened.
    pub name: Name,
    /// What kind of thing.
    pub category: Category,
    /// In nanoseconds of the trace's own time.
    pub start: i64,
    /// In nanoseconds; less than nothing is nothing.
    pub duration: i64,
    /// What ties it to others; 0 if nothing does.
    pub correlation: u32,
    /// What it has besides. Nothing is kept of it if it is the default.
    pub details: Details,
}

/// One end of an arrow.
#[derive(Debug, Clone, Copy)]
pub struct FlowEnd {
    /// What the arrow means.
    pub kind: FlowKind,
    /// Its number.
    pub id: u64,
    /// Where it stands.
    pub track: u32,
    /// When, in nanoseconds.
    pub time: i64,
    /// Whether it is where the arrow ends.
    pub is_end: bool,
}

#[derive(Debug)]
struct RawTrack {
    process: u32,
    id: PlaceId,
    name: Name,
    sort_index: Option<i64>,
    has_device_work: bool,
    kind: Option<TrackKind>,
    slices: usize,
}

/// Collects slices, arrows and counters.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// What the trace says of itself.
    pub info: Info,
    /// Its texts.
    pub names: Names,
    /// Whether to keep what only XProf's format has: allocations, and how kernels were launched.
    pub is_for_xprof: bool,
    processes: Vec<(Process, PlaceId)>,
    process_numbers: FxHashMap<PlaceId, u32>,
    tracks: Vec<RawTrack>,
    track_numbers: FxHashMap<(u32, PlaceId), u32>,
    /// The track of the last event, which is mostly that of the next.
    last: Option<(PlaceId, PlaceId, u32)>,
    slices: Vec<Slice>,
    details: Vec<Details>,
    flow_ends: Vec<FlowEnd>,
    flows: Vec<Flow>,
    /// Arrows between slices by the order in which these were added.
    flows_as_added: Vec<Flow>,
    counters: Vec<Counter>,
    memory: Vec<MemoryChange>,
}

impl TraceBuilder {
    /// The number of a process.
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
        self.processes.push((process, id.clone()));
        self.process_numbers.insert(id.clone(), number);
        number
    }

    /// The number of a track.
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

    /// The number of a track of a process whose number is known.
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
                sort_index: None,
                has_device_work: false,
                kind: None,
                slices: 0,
            });
        }
        number
    }

    /// Says what a track is of, where that is known.
    pub fn set_kind(&mut self, track: u32, kind: TrackKind) {
        self.tracks[track as usize].kind = Some(kind);
    }

    /// Gives a process its name.
    pub fn name_process(&mut self, process: u32, name: &str) {
        self.processes[process as usize].0.name = self.names.intern(name);
    }

    /// Says what stands beside a process.
    pub fn label_process(&mut self, process: u32, labels: &str) {
        self.processes[process as usize].0.labels = self.names.intern(labels);
    }

    /// Gives a track its name.
    pub fn name_track(&mut self, track: u32, name: &str) {
        self.tracks[track as usize].name = self.names.intern(name);
    }

    /// Says where among the others a track stands.
    pub fn sort_track(&mut self, track: u32, index: i64) {
        self.tracks[track as usize].sort_index = Some(index);
    }

    /// Adds a slice.
    pub fn slice(&mut self, slice: RawSlice) {
        let track = &mut self.tracks[slice.track as usize];
        track.has_device_work |= slice.category.is_on_device();
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
            // Its number, until it is known what it is inside of.
            parent: self.slices.len() as u32, // fewer than 2^32
            details,
            category: slice.category,
            depth: 0,
        });
    }

    /// Whether there is no slice yet.
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Adds an end of an arrow.
    pub fn flow_end(&mut self, end: FlowEnd) {
        self.flow_ends.push(end);
    }

    /// Adds an arrow between the places that slices will have in the trace.
    pub fn flow(&mut self, flow: Flow) {
        self.flows.push(flow);
    }

    /// Adds an arrow between slices by their numbers in the order in which they are added, from 0.
    pub fn flow_as_added(&mut self, flow: Flow) {
        self.flows_as_added.push(flow);
    }

    /// Adds a counter's value.
    pub fn counter(&mut self, counter: Counter) {
        self.counters.push(counter);
    }

    /// Adds an allocation or a free, whose track is a number from [`track`](Self::track).
    pub fn memory(&mut self, change: MemoryChange) {
        self.memory.push(change);
    }

    /// The trace.
    pub fn finish(mut self) -> Trace {
        self.counters.sort_by_key(|counter| counter.time);
        self.memory.sort_by_key(|change| change.time);
        let kinds: Vec<TrackKind> = self.tracks.iter().map(|track| self.kind(track)).collect();
        let mut order: Vec<usize> = (0..self.tracks.len()).collect();
        // Devices below threads, those without an order of their own last.
        order.sort_by_key(|place| {
            let track = &self.tracks[*place];
            let is_on_device = kinds[*place] == TrackKind::Stream;
            let process = is_on_device.then(|| self.processes[track.process as usize].0.number);
            (is_on_device, process, track.sort_index.unwrap_or(i64::MAX))
        });
        // Where each slice goes, by its number, if anybody asks.
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
            processes: self.processes.into_iter().map(|(process, _)| process).collect(),
            tracks: Vec::new(),
            slices: Vec::with_capacity(by_track.iter().map(Vec::len).sum()),
            details: self.details,
            flows: Vec::new(),
            counters: self.counters,
            memory: self.memory,
        };
        // Where each raw track's slices went, if it has any.
        let mut new_numbers = vec![NONE; self.tracks.len()];
        for place in order {
            let slices = std::mem::take(&mut by_track[place]);
            if !slices.is_empty() {
                new_numbers[place] = trace.tracks.len() as u32;
                add_track(&mut trace, &self.tracks[place], kinds[place], slices, &mut places);
            }
        }
        trace.flows = flows(&trace, self.flow_ends, &new_numbers);
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
        let (process, _) = &self.processes[track.process as usize];
        let is_device = self.names.text(process.labels).starts_with("GPU");
        match (track.has_device_work || is_device, process.number) {
            (true, _) => TrackKind::Stream,
            (false, Some(_)) => TrackKind::Thread,
            // PyTorch draws the recorded span so.
            (false, None) if matches!(&track.id, PlaceId::Text(_)) => TrackKind::Other,
            (false, None) => TrackKind::Thread,
        }
    }
}

/// What ends the name of a track of what crosses slices of another one.
const OVERLAPPING: &str = " (overlapping)";

fn add_track(
    trace: &mut Trace,
    raw: &RawTrack,
    kind: TrackKind,
    slices: Vec<Slice>,
    places: &mut [u32],
) {
    let name = trace.names.text(raw.name).to_owned();
    let own = match (name.is_empty(), &raw.id, kind) {
        (false, ..) => name,
        (true, PlaceId::Number(number), TrackKind::Stream) => format!("stream {number}"),
        (true, PlaceId::Number(number), _) => format!("thread {number}"),
        (true, PlaceId::Text(text), _) => text.to_string(),
    };
    // A recorder may have put them apart itself.
    let crossed = own.strip_suffix(OVERLAPPING).and_then(|crossed| {
        let crossed = trace.names.find(crossed)?;
        let is_it = |track: &Track| {
            track.name == crossed && track.process == raw.process && track.kind == kind
        };
        trace.tracks.iter().position(is_it)
    });
    let base = crossed.map_or(trace.tracks.len() as u32, |crossed| crossed as u32);
    for (lane, mut slices) in nest::lanes(slices).into_iter().enumerate() {
        let (number, first) = (trace.tracks.len() as u32, trace.slices.len());
        if !places.is_empty() {
            let numbers = slices.iter().map(|slice| slice.parent as usize);
            numbers.zip(first as u32..).for_each(|(number, place)| places[number] = place);
        }
        nest::tie(&mut slices, first);
        slices.iter_mut().for_each(|slice| slice.track = number);
        let name = match lane == 0 || crossed.is_some() {
            true => trace.names.intern(&own),
            false => trace.names.intern(&format!("{own}{OVERLAPPING}")),
        };
        trace.slices.append(&mut slices);
        trace.tracks.push(Track {
            process: raw.process,
            number: raw.id.number(),
            name,
            kind,
            overlaps: (number != base).then_some(base),
            slices: first..trace.slices.len(),
            sort_index: raw.sort_index.unwrap_or(i64::MAX),
        });
    }
}

/// Arrows of which both ends are on slices.
fn flows(trace: &Trace, mut ends: Vec<FlowEnd>, new_numbers: &[u32]) -> Vec<Flow> {
    ends.sort_by_key(|end| (end.kind as u8, end.id, end.is_end, end.time));
    let mut flows = Vec::new();
    let mut from: Option<(FlowEnd, u32)> = None;
    for end in ends {
        let at = at(trace, new_numbers[end.track as usize] as usize, &end);
        if !end.is_end {
            from = at.map(|at| (end, at));
        } else if let (Some((start, from)), Some(to)) = (from, at)
            && (start.kind, start.id) == (end.kind, end.id)
        {
            flows.push(Flow { kind: end.kind, from, to });
        }
    }
    flows
}

/// The slice that an end of an arrow is tied to: one of its kind that begins then, else the innermost.
fn at(trace: &Trace, track: usize, end: &FlowEnd) -> Option<u32> {
    let time = end.time;
    let slices = &trace.slices[trace.tracks.get(track)?.slices.clone()];
    let is_of_its_kind = |slice: &Slice| match end.kind {
        FlowKind::ForwardBackward => slice.category == Category::CpuOp,
        // Around the first kernel of an action is the action, which begins with it.
        FlowKind::Launch => slice.category.is_runtime() || slice.category.is_device_work(),
        FlowKind::Other => true,
    };
    let after = slices.partition_point(|slice| slice.start < time);
    let begin_then = slices[after..].iter().take_while(|slice| slice.start == time);
    let (mut last, mut found) = (after, None);
    for (place, slice) in (after..).zip(begin_then) {
        last = place + 1;
        found = found.or_else(|| is_of_its_kind(slice).then_some(place));
    }
    let first = trace.tracks[track].slices.start;
    if let Some(place) = found {
        return Some((first + place) as u32);
    }
    let mut around = Some(first + last.checked_sub(1)?);
    while let Some(place) = around {
        if trace.slices[place].end() > time {
            return Some(place as u32);
        }
        around = trace.slices[place].parent();
    }
    None
}
