//! Error type of this crate.

use std::io;

use mlprof_report::numerics::RECORD_VERSION;

/// Error of reading a trace or a numerics record, or of combining traces. The caller adds file
/// paths.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has another format, which the message describes.
    #[error("{0}")]
    NoTrace(String),
    /// The trace has no slices.
    #[error("it is a trace in which nothing was recorded")]
    Empty,
    /// The trace has events, but none of them is a readable slice. The message gives the reasons.
    #[error("none of its events is a slice that can be read: {0}")]
    NoSlices(String),
    /// The end of the trace is missing, and no slice comes before it.
    #[error("its end is missing, and nothing that was recorded comes before: {0}")]
    Cut(String),
    /// Two files belong to the same rank and contain the same steps.
    #[error(
        "{first} and {second} are both of rank {rank}, and of the same cycle: leave one of them out"
    )]
    TwoOfOneRank {
        /// Rank of both files.
        rank: u32,
        /// First file of the rank.
        first: String,
        /// Second file of the rank.
        second: String,
    },
    /// Two files do not state their rank and were recorded at the same time.
    #[error(
        "{first} and {second} do not state their rank (no distributedInfo, no rank in the file's \
         name): give it as RANK=FILE, such as 0={first} 1={second}"
    )]
    NoRank {
        /// First file.
        first: String,
        /// Second file.
        second: String,
    },
    /// No traces were given.
    #[error("there are no traces to be put together")]
    NoTraces,
    /// The first line of a numerics record is not a header of the numerics profiler.
    #[error("it is no record of numbers: its first line is none that the numerics profiler writes")]
    NoHeader(#[source] serde_json::Error),
    /// The record was written by a later version, which changed the meaning of its fields.
    #[error(
        "it was written by a newer mlprof: its layout has the version {0}, and this mlprof knows \
         those up to {RECORD_VERSION}"
    )]
    NewerRecord(u32),
    /// A line of a numerics record cannot be parsed.
    #[error("line {line} is none of a record")]
    RecordLine {
        /// Line number, counted from 1.
        line: u64,
        /// Parse error of the line.
        source: serde_json::Error,
    },
}

mlprof_events::debug_as_display!(Error);
