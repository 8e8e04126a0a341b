//! The file format of <https://www.speedscope.app>.

use serde::Serialize;

use super::stacks::{Stacks, ThreadStacks, Unit};
use super::trace::{Edge, Trace, Track};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// A whole file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct File {
    #[serde(rename = "$schema")]
    schema: &'static str,
    exporter: String,
    name: String,
    active_profile_index: usize,
    shared: Shared,
    profiles: Vec<Profile>,
}

#[derive(Debug, Serialize)]
struct Shared {
    frames: Vec<Frame>,
}

#[derive(Debug, Serialize)]
struct Frame {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
}

/// One thread.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Profile {
    /// What happened when.
    #[serde(rename_all = "camelCase")]
    Evented {
        name: String,
        unit: &'static str,
        start_value: u64,
        end_value: u64,
        events: Vec<Event>,
    },
    /// How long which stacks were there, in no order of time.
    #[serde(rename_all = "camelCase")]
    Sampled {
        name: String,
        unit: &'static str,
        start_value: u64,
        end_value: u64,
        samples: Vec<Vec<u32>>,
        weights: Vec<u64>,
    },
}

#[derive(Debug, Serialize)]
struct Event {
    /// `O` for open, `C` for close.
    #[serde(rename = "type")]
    kind: char,
    frame: u32,
    at: u64,
}

impl File {
    fn new(name: &str, frames: Vec<Frame>, profiles: Vec<Profile>) -> Self {
        Self {
            schema: SCHEMA,
            exporter: format!("mlprof {}", env!("CARGO_PKG_VERSION")),
            name: name.to_owned(),
            active_profile_index: 0,
            shared: Shared { frames },
            profiles,
        }
    }

    /// A trace: a profile per thread and device stream.
    pub(crate) fn of_trace(name: &str, trace: &Trace) -> Self {
        let end = trace.tracks.iter().flat_map(|track| &track.slices).map(|slice| slice.end).max();
        let frame = |name: &String| Frame { name: name.clone(), file: None, line: None };
        let profiles = trace.tracks.iter().map(|track| evented(track, end.unwrap_or(0)));
        Self::new(name, trace.names.iter().map(frame).collect(), profiles.collect())
    }

    /// Sums: a profile per thread.
    pub(crate) fn of_stacks(name: &str, stacks: &Stacks) -> Self {
        let frames = stacks.frames.iter().map(|frame| {
            let (file, line) = frame.place.clone().unzip();
            Frame { name: frame.name.clone(), file, line }
        });
        let profiles = stacks.threads.iter().map(|thread| sampled(thread, stacks.unit));
        Self::new(name, frames.collect(), profiles.collect())
    }
}

fn evented(track: &Track, end_value: u64) -> Profile {
    let event = |edge| match edge {
        Edge::Open(slice) => Event { kind: 'O', frame: slice.name, at: slice.start },
        Edge::Close(slice) => Event { kind: 'C', frame: slice.name, at: slice.end },
    };
    Profile::Evented {
        name: track.name.clone(),
        unit: "nanoseconds",
        start_value: 0,
        end_value,
        events: track.edges().map(event).collect(),
    }
}

fn sampled(thread: &ThreadStacks, unit: Unit) -> Profile {
    let with_value = || thread.stacks.iter().filter(|stack| stack.value > 0);
    let weights: Vec<u64> = with_value().map(|stack| stack.value).collect();
    Profile::Sampled {
        name: thread.thread.clone(),
        unit: match unit {
            Unit::Nanoseconds => "nanoseconds",
            Unit::Bytes => "bytes",
        },
        start_value: 0,
        end_value: weights.iter().sum(),
        samples: with_value().map(|stack| thread.frames(stack)).collect(),
        weights,
    }
}
