//! The file format of <https://www.speedscope.app>.

use std::collections::HashMap;

use mlprof_analysis::Trace;
use mlprof_analysis::trace::{Edge, Name};
use serde::Serialize;

use super::stacks::{Stacks, ThreadStacks, Unit};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// Complete speedscope file.
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

/// Profile of one thread or device stream.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Profile {
    /// Open and close events in time order.
    #[serde(rename_all = "camelCase")]
    Evented {
        name: String,
        unit: &'static str,
        start_value: u64,
        end_value: u64,
        events: Vec<Event>,
    },
    /// Total value of each stack, not in time order.
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
            active_profile_index: longest(&profiles),
            shared: Shared { frames },
            profiles,
        }
    }

    /// Creates a file from a trace, with one profile per thread and device stream.
    pub(crate) fn of_trace(name: &str, trace: &Trace) -> Self {
        let frame = |name: &str| Frame { name: name.to_owned(), file: None, line: None };
        let mut names = NamesOfSlices::default();
        let profiles = (0..trace.tracks.len()).map(|track| evented(trace, track, &mut names));
        let profiles = profiles.collect();
        let frames = names.all.into_iter().map(|name| frame(trace.names.text(name)));
        Self::new(name, frames.collect(), profiles)
    }

    /// Creates a file from aggregated stacks, with one profile per thread.
    pub(crate) fn of_stacks(name: &str, stacks: &Stacks) -> Self {
        let frames = stacks.frames.iter().map(|frame| {
            let (file, line) = frame.place.clone().unzip();
            Frame { name: frame.name.clone(), file, line }
        });
        let profiles = stacks.threads.iter().map(|thread| sampled(thread, stacks.unit));
        Self::new(name, frames.collect(), profiles.collect())
    }
}

/// Returns the index of the profile to show first, which is the one with the longest total time.
fn longest(profiles: &[Profile]) -> usize {
    let mut longest = (0, 0);
    for (index, profile) in profiles.iter().enumerate() {
        let length = profile.length();
        if length > longest.1 {
            longest = (index, length);
        }
    }
    longest.0
}

impl Profile {
    /// Returns the total time during which at least one frame was open.
    fn length(&self) -> u64 {
        match self {
            Self::Sampled { end_value, .. } => *end_value,
            Self::Evented { events, .. } => {
                let (mut depth, mut since, mut length) = (0_u64, 0, 0);
                for event in events {
                    if event.kind == 'O' {
                        since = if depth == 0 { event.at } else { since };
                        depth += 1;
                    } else {
                        depth = depth.saturating_sub(1);
                        length += if depth == 0 { event.at - since } else { 0 };
                    }
                }
                length
            }
        }
    }
}

/// Names of slices, indexed by frame number. A trace also contains other strings, which are not
/// frames.
#[derive(Default)]
struct NamesOfSlices {
    all: Vec<Name>,
    numbers: HashMap<Name, u32>,
}

impl NamesOfSlices {
    fn frame(&mut self, name: Name) -> u32 {
        let next = self.all.len() as u32; // 2^32 names do not fit into memory
        let number = *self.numbers.entry(name).or_insert(next);
        if number == next {
            self.all.push(name);
        }
        number
    }
}

fn evented(trace: &Trace, track: usize, names: &mut NamesOfSlices) -> Profile {
    let (begin, end) = trace.window().unwrap_or_default();
    let event = |edge| {
        let (kind, place) = match edge {
            Edge::Open(place) => ('O', place),
            Edge::Close(place) => ('C', place),
        };
        let slice = &trace.slices[place];
        let at = if kind == 'O' { slice.start } else { slice.end() };
        Event { kind, frame: names.frame(slice.name), at: at.abs_diff(begin) }
    };
    Profile::Evented {
        name: trace.track_name(track),
        unit: "nanoseconds",
        start_value: 0,
        end_value: end.abs_diff(begin),
        events: trace.edges(&trace.tracks[track]).map(event).collect(),
    }
}

fn sampled(thread: &ThreadStacks, unit: Unit) -> Profile {
    let with_value = || thread.stacks.iter().filter(|stack| stack.value > 0);
    let weights: Vec<u64> = with_value().map(|stack| stack.value).collect();
    Profile::Sampled {
        name: thread.thread.clone().unwrap_or_default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_in_which_most_happens_is_shown_first() {
        let event = |kind, at| Event { kind, frame: 0, at };
        let evented = |events: &[(char, u64)]| Profile::Evented {
            name: String::new(),
            unit: "nanoseconds",
            start_value: 0,
            end_value: 100,
            events: events.iter().map(|(kind, at)| event(*kind, *at)).collect(),
        };
        let short = evented(&[('O', 0), ('C', 10), ('O', 90), ('C', 100)]);
        let nested = evented(&[('O', 20), ('O', 25), ('C', 30), ('C', 50)]);
        assert_eq!((short.length(), nested.length()), (20, 30));
        assert_eq!(longest(&[short, nested]), 1);
        let sampled = |end_value| Profile::Sampled {
            name: String::new(),
            unit: "nanoseconds",
            start_value: 0,
            end_value,
            samples: Vec::new(),
            weights: Vec::new(),
        };
        assert_eq!(longest(&[sampled(3), sampled(7), sampled(7)]), 1);
        let file = File::new("run", Vec::new(), vec![sampled(3), sampled(7)]);
        let json = serde_json::to_value(file).expect("JSON");
        assert_eq!(json["activeProfileIndex"], 1);
    }
}
