//! What the line profiler found: per function, how often each line ran, how long, and what it did
//! to memory.

#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod text;

use serde::Serialize;

use super::ReportHeader;
use crate::value::report_value;

report_value! {
/// The numbers of one process, all threads together.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LinesReport from LinesReportParts {
    /// Which run; wall time; what measuring cost (a scope is a hit of a line).
    pub header: ReportHeader,
    /// In the order of files and lines.
    pub functions: Vec<FunctionLines>,
}
}

/// The lines of one function. Times in seconds.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FunctionLines {
    /// Its path: `my_model::net::Net::forward`.
    pub name: String,
    /// The absolute path of its file.
    pub file: String,
    /// The line that it begins on, from 1.
    pub first_line: u32,
    /// The line that it ends on.
    pub last_line: u32,
    /// How often it was called.
    pub calls: u64,
    /// All its lines together, in seconds: from the beginning to the end of calls that were not made
    /// inside a call of it, and of its closures where they ran on other threads.
    pub total_seconds: f64,
    /// What the process had when calls began, where memory was counted; the increment is what was
    /// allocated and not freed since the call before (or since counting began).
    #[serde(default)]
    pub entry_memory: Option<LineMemory>,
    /// Lines that ran, in their order.
    pub lines: Vec<LineStatistics>,
    /// The text from the first to the last line, as it was when the report was made; `None` if the
    /// file was gone.
    pub source: Option<Vec<String>>,
}

/// One line. Time in seconds.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LineStatistics {
    /// Its number in the file, from 1.
    pub line: u32,
    /// How often it began.
    pub hits: u64,
    /// How long it ran, with what it called; what still runs until now.
    pub seconds: f64,
    /// Where memory was counted.
    #[serde(default)]
    pub memory: Option<LineMemory>,
}

/// Memory of the host around one line, in bytes as the program asked for them.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LineMemory {
    /// The most that the process had allocated and not freed when the line ended.
    pub max_bytes: i64,
    /// What this thread allocated during the line and did not free, summed over all times it ran.
    /// Below 0 if it freed more.
    pub increment_bytes: i64,
    /// How often it ended while memory was counted.
    pub occurrences: u64,
}
