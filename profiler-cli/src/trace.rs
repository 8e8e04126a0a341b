//! A trace that was read: per thread and device stream, what happened when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

/// What one track of a trace shows: properly nested slices.
#[derive(Debug)]
pub(crate) struct Track {
    /// `main`, or `stream 7 of GPU 0`.
    pub(crate) name: String,
    /// Of a device, not of a thread.
    pub(crate) is_on_device: bool,
    /// Holds what crosses slices of another track, whose time it would count again.
    pub(crate) is_overlapping: bool,
    /// By their beginning, and what is around something before it.
    pub(crate) slices: Vec<Slice>,
    /// How many slices were cut at the end of the one around them, which they outlived.
    pub(crate) cut: u64,
}

/// From a beginning to an end, in nanoseconds after the beginning of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slice {
    /// In [`Trace::names`].
    pub(crate) name: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Everything that has a duration in a trace. Tracks without slices are left out.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) names: Vec<String>,
    /// Threads first, in the order of the trace.
    pub(crate) tracks: Vec<Track>,
}

/// An event as it stands in a file. What is not needed is skipped.
#[derive(Deserialize)]
pub(crate) struct Event {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    /// In microseconds.
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    #[serde(default)]
    args: Arguments,
}

#[derive(Default, Deserialize)]
struct Arguments {
    #[serde(default)]
    name: Value,
    #[serde(default)]
    labels: Value,
    #[serde(default)]
    sort_index: Value,
}

/// Collects the events of a trace, which come in no order.
#[derive(Default)]
pub(crate) struct TraceBuilder {
    names: Vec<String>,
    ids: HashMap<String, u32>,
    /// By process and thread, as text: mostly they are numbers.
    tracks: BTreeMap<(String, String), RawTrack>,
    /// What processes are called: `CPU`, `GPU 0`.
    labels: HashMap<String, String>,
    /// The number of the track that the last event was on, which is mostly the next one's too.
    last: Option<((Value, Value), (String, String))>,
}

#[derive(Default)]
struct RawTrack {
    name: Option<String>,
    sort_index: Option<u64>,
    has_kernels: bool,
    slices: Vec<RawSlice>,
}

/// Times in nanoseconds of the trace's own clock.
struct RawSlice {
    name: u32,
    start: i64,
    duration: u64,
}

/// What devices do.
const DEVICE_CATEGORIES: [&str; 4] = ["kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"];
/// Ends the name of a track of what crosses slices of the thread's own track.
const OVERLAPPING: &str = " (overlapping)";

impl TraceBuilder {
    /// Adds an event; those that are neither slices nor names of tracks are passed over.
    pub(crate) fn add(&mut self, event: Event) {
        match (event.ph.as_str(), event.name.as_str()) {
            ("X", _) => self.slice(event),
            ("M", "thread_name") => {
                let name = event.args.name.as_str().map(str::to_owned);
                self.track(event.pid, event.tid).name = name;
            }
            ("M", "thread_sort_index") => {
                let sort_index = event.args.sort_index.as_u64();
                self.track(event.pid, event.tid).sort_index = sort_index;
            }
            ("M", "process_labels") => {
                let label = event.args.labels.as_str().unwrap_or_default().to_owned();
                self.labels.insert(text(&event.pid), label);
            }
            _ => {}
        }
    }

    fn slice(&mut self, event: Event) {
        let name = self.name(event.name);
        let nanoseconds = |microseconds: f64| (microseconds * 1e3).round();
        let (start, duration) = (nanoseconds(event.ts) as i64, nanoseconds(event.dur) as u64);
        let is_kernel = DEVICE_CATEGORIES.contains(&event.cat.as_str());
        let track = self.track(event.pid, event.tid);
        track.has_kernels |= is_kernel;
        track.slices.push(RawSlice { name, start, duration });
    }

    fn name(&mut self, name: String) -> u32 {
        if let Some(id) = self.ids.get(&name) {
            return *id;
        }
        let id = self.names.len() as u32; // names of 2^32 actions do not fit into memory
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    fn track(&mut self, process: Value, thread: Value) -> &mut RawTrack {
        let place = (process, thread);
        let key = match &self.last {
            Some((last, key)) if *last == place => key.clone(),
            _ => {
                let key = (text(&place.0), text(&place.1));
                self.last = Some((place, key.clone()));
                key
            }
        };
        self.tracks.entry(key).or_default()
    }

    /// The trace; `None` if nothing happened in it.
    pub(crate) fn finish(self) -> Option<Trace> {
        let Self { names, tracks, labels, .. } = self;
        let starts = tracks.values().flat_map(|track| &track.slices).map(|slice| slice.start);
        let begin = starts.min()?;
        let mut tracks: Vec<_> = tracks
            .into_iter()
            .filter(|(_, track)| !track.slices.is_empty())
            .map(|((process, thread), raw)| {
                let label = labels.get(&process).map(String::as_str);
                let order = raw.sort_index;
                (order, track(&thread, label, raw, begin))
            })
            .collect();
        // Those without an order of their own last; device tracks below threads.
        tracks.sort_by_key(|(order, track)| (track.is_on_device, order.unwrap_or(u64::MAX)));
        Some(Trace { names, tracks: tracks.into_iter().map(|(_, track)| track).collect() })
    }
}

/// A number or a name.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn track(thread: &str, label: Option<&str>, raw: RawTrack, begin: i64) -> Track {
    let is_on_device = raw.has_kernels || label.is_some_and(|label| label.starts_with("GPU"));
    let own_name = raw.name.unwrap_or_else(|| match is_on_device {
        true => format!("stream {thread}"),
        false => format!("thread {thread}"),
    });
    let name = match label.filter(|_| is_on_device) {
        Some(label) => format!("{own_name} of {label}"),
        None => own_name,
    };
    let (slices, cut) = nested(raw.slices, begin);
    Track { is_on_device, is_overlapping: name.ends_with(OVERLAPPING), name, slices, cut }
}

/// Slices in order, each within the one around it; and how many had to be cut for that.
fn nested(mut raw: Vec<RawSlice>, begin: i64) -> (Vec<Slice>, u64) {
    // Stable: of two that are one and the same time, the outer one is written first.
    raw.sort_by_key(|slice| (slice.start, Reverse(slice.duration)));
    let mut open: Vec<u64> = Vec::new();
    let mut cut = 0;
    let slices = raw.into_iter().map(|slice| {
        let start = slice.start.abs_diff(begin);
        let mut end = start.saturating_add(slice.duration);
        // What is further inside does not end later.
        while open.last().is_some_and(|around| *around <= start) {
            open.pop();
        }
        if let Some(around) = open.last().filter(|around| **around < end) {
            end = *around;
            cut += 1;
        }
        open.push(end);
        Slice { name: slice.name, start, end }
    });
    (slices.collect(), cut)
}

/// What a walk over the slices of a track comes by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Edge {
    Open(Slice),
    Close(Slice),
}

impl Track {
    /// Opens and closes in their order; they are properly nested.
    pub(crate) fn edges(&self) -> impl Iterator<Item = Edge> {
        let mut open: Vec<Slice> = Vec::new();
        let mut next = self.slices.iter().copied().peekable();
        std::iter::from_fn(move || {
            let closes = match (open.last(), next.peek()) {
                (Some(innermost), Some(slice)) => innermost.end <= slice.start,
                (innermost, None) => innermost.is_some(),
                (None, Some(_)) => false,
            };
            if closes {
                return open.pop().map(Edge::Close);
            }
            let slice = next.next()?;
            open.push(slice);
            Some(Edge::Open(slice))
        })
    }
}
