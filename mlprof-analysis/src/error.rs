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
    #[error("the trace has no slices; record it again while the program works")]
    Empty,
    /// The trace has events, but none of them is a readable slice. The message gives the reasons.
    #[error("none of the trace's events is a readable slice: {0}")]
    NoSlices(String),
    /// The end of the trace is missing, and no slice comes before it.
    #[error("the end of the trace is missing, and no slice comes before: {0}")]
    Cut(String),
    /// Two files belong to the same rank and contain the same steps.
    #[error(
        "cannot combine {first} and {second}: both have the same cycle of rank {rank}; leave one out"
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
        "cannot determine the ranks of {first} and {second}: they have neither distributedInfo nor a rank in \
         the file name; give RANK=FILE, such as 0={first} 1={second}"
    )]
    NoRank {
        /// First file.
        first: String,
        /// Second file.
        second: String,
    },
    /// No traces were given.
    #[error("cannot combine traces: none was given")]
    NoTraces,
    /// The first line of a numerics record is not a header of the numerics profiler.
    #[error(
        "the file is not a numerics record: its first line is not a header of the numerics profiler"
    )]
    NoHeader(#[source] serde_json::Error),
    /// The record was written by a later version, which changed the meaning of its fields.
    #[error(
        "a newer mlprof wrote the record: its format version is {0}, and this mlprof supports versions up to \
         {RECORD_VERSION}; update mlprof"
    )]
    NewerRecord(u32),
    /// A line of a numerics record cannot be parsed.
    #[error("cannot parse line {line} of the numerics record")]
    RecordLine {
        /// Line number, counted from 1.
        line: u64,
        /// Parse error of the line.
        source: serde_json::Error,
    },
}

mlprof_events::debug_as_display!(Error);
