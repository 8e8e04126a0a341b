//! The error of this crate.

use std::io;

use mlprof_report::numerics::RECORD_VERSION;

/// The error of a trace, or of a record of numbers, that cannot be read, and of traces that cannot
/// be put together. Paths are the caller's to add.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has another format: a sentence on which.
    #[error("{0}")]
    NoTrace(String),
    /// The trace has no slice.
    #[error("it is a trace in which nothing was recorded")]
    Empty,
    /// The trace has events, and none of them is a slice that can be read: sentences on why.
    #[error("none of its events is a slice that can be read: {0}")]
    NoSlices(String),
    /// The end of the trace is missing, and no slice comes before.
    #[error("its end is missing, and nothing that was recorded comes before: {0}")]
    Cut(String),
    /// Two files are of one rank and the same steps.
    #[error(
        "{first} and {second} are both of rank {rank}, and of the same cycle: leave one of them out"
    )]
    TwoOfOneRank {
        /// The rank.
        rank: u32,
        /// A file of it.
        first: String,
        /// Another one.
        second: String,
    },
    /// Two files do not state their rank, and were recorded at the same time.
    #[error(
        "{first} and {second} do not state their rank (no distributedInfo, no rank in the file's \
         name): give it as RANK=FILE, such as 0={first} 1={second}"
    )]
    NoRank {
        /// A file.
        first: String,
        /// Another one.
        second: String,
    },
    /// There are no traces to put together.
    #[error("there are no traces to be put together")]
    NoTraces,
    /// The first line of a record of numbers is not one that the numerics profiler writes.
    #[error("it is no record of numbers: its first line is none that the numerics profiler writes")]
    NoHeader(#[source] serde_json::Error),
    /// A later version changed the meaning of a record's fields.
    #[error(
        "it was written by a newer mlprof: its layout has the version {0}, and this mlprof knows \
         those up to {RECORD_VERSION}"
    )]
    NewerRecord(u32),
    /// A line in the middle of a record is not one of a record.
    #[error("line {line} is none of a record")]
    RecordLine {
        /// The number of the line, counted from 1.
        line: u64,
        /// The error of the line.
        source: serde_json::Error,
    },
}

mlprof_events::debug_as_display!(Error);
