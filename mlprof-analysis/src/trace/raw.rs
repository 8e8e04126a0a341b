//! Slices, arrows, tracks and processes as they are read, before a trace is assembled from them.

use std::sync::Arc;

use super::{Category, Details, FlowKind, Name, Process, TrackKind};

/// How a process or thread is known: mostly by a number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PlaceId {
    /// A number.
    Number(i64),
    /// A text, such as `Spans`.
    Text(Arc<str>),
}

impl PlaceId {
    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }

    /// The number of a stream or a device, which a text such as `stream 7` or `GPU 0` ends with.
    pub(super) fn device_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => number_in(text),
        }
    }
}

/// The last number of a text: 13 of `Stream #13`.
pub(super) fn number_in(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let start = digits.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    digits.get(start..)?.parse().ok()
}

/// A slice as it is read: in no order.
#[derive(Debug, Clone, Copy)]
pub struct RawSlice {
    /// Where it stands: a number from [`TraceBuilder::track`](super::TraceBuilder::track).
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

impl Default for PlaceId {
    fn default() -> Self {
        Self::Number(0)
    }
}

#[derive(Debug, Default)]
pub(super) struct RawTrack {
    pub(super) process: u32,
    pub(super) id: PlaceId,
    pub(super) name: Name,
    pub(super) sort_index: Option<i64>,
    pub(super) has_device_work: bool,
    pub(super) has_host_work: bool,
    pub(super) kind: Option<TrackKind>,
    pub(super) slices: usize,
}

#[derive(Debug)]
pub(super) struct RawProcess {
    pub(super) process: Process,
    /// The last label that names a device: a process may have the same number.
    pub(super) device_labels: Name,
    pub(super) id: PlaceId,
}
