//! Slices, arrows, tracks and processes as read from a file, before the trace is assembled.

use std::sync::Arc;

use super::{Category, Details, FlowKind, Name, Process, TrackKind};

/// Id of a process or thread, usually a number.
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

    /// Returns the number of a stream or device, which is at the end of a text such as `stream 7`
    /// or `GPU 0`.
    pub(super) fn device_number(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => number_in(text),
        }
    }
}

/// Returns the last number in a text, such as 13 for `Stream #13`.
pub(super) fn number_in(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let start = digits.rfind(|letter: char| !letter.is_ascii_digit()).map_or(0, |at| at + 1);
    digits.get(start..)?.parse().ok()
}

/// Unsorted slice as read from a file.
#[derive(Debug, Clone, Copy)]
pub struct RawSlice {
    /// Track number from [`TraceBuilder::track`](super::TraceBuilder::track).
    pub track: u32,
    /// Name of the slice.
    pub name: Name,
    /// Category of the slice.
    pub category: Category,
    /// Start in nanoseconds of the trace's own time.
    pub start: i64,
    /// Duration in nanoseconds. Negative values count as 0.
    pub duration: i64,
    /// Correlation id. 0 if there is none.
    pub correlation: u32,
    /// Further details. The default uses no memory.
    pub details: Details,
}

/// One end of an arrow.
#[derive(Debug, Clone, Copy)]
pub struct FlowEnd {
    /// Meaning of the arrow.
    pub kind: FlowKind,
    /// Id of the arrow.
    pub id: u64,
    /// Track number of the end.
    pub track: u32,
    /// Time in nanoseconds.
    pub time: i64,
    /// `true` if the arrow ends here.
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
    /// Last label that names a device, kept separately because a process may have the same number.
    pub(super) device_labels: Name,
    pub(super) id: PlaceId,
}
