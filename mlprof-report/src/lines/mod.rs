//! Report of the line profiler: hits, time and memory of each line, per function.

#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod text;

use serde::Serialize;

use super::ReportHeader;
use crate::value::report_value;

report_value! {
/// Line report of one process, summed over all threads.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LinesReport from LinesReportParts {
    /// Run, wall time and measurement overhead. Each hit of a line counts as a scope.
    pub header: ReportHeader,
    /// Functions, ordered by file and line.
    pub functions: Vec<FunctionLines>,
}
}

/// The lines of one function. Times are in seconds.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FunctionLines {
    /// Path of the function: `my_model::net::Net::forward`.
    pub name: String,
    /// Absolute path of the source file.
    pub file: String,
    /// First line of the function, from 1.
    pub first_line: u32,
    /// Last line of the function.
    pub last_line: u32,
    /// Number of calls.
    pub calls: u64,
    /// Total time of all lines in seconds, from the start to the end of the calls. Recursive calls
    /// are not counted again. The function's closures are included if they ran on other threads.
    pub total_seconds: f64,
    /// Memory of the process when calls began, if memory was counted. The increment is the memory
    /// allocated and not freed since the previous call, or since counting began.
    #[serde(default)]
    pub entry_memory: Option<LineMemory>,
    /// Lines that ran, in ascending order.
    pub lines: Vec<LineStatistics>,
    /// Source text from the first to the last line, as read when the report was made. `None` if the
    /// file no longer existed.
    pub source: Option<Vec<String>>,
}

/// Statistics of one line.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LineStatistics {
    /// Line number in the file, from 1.
    pub line: u32,
    /// Number of times that the line started.
    pub hits: u64,
    /// Time of the line in seconds, including its callees. A line that is still running counts
    /// until now.
    pub seconds: f64,
    /// Memory around the line, if memory was counted.
    #[serde(default)]
    pub memory: Option<LineMemory>,
}

/// Host memory around one line, in bytes as requested by the program.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LineMemory {
    /// Largest amount of live memory in the process at an end of the line, in bytes.
    pub max_bytes: i64,
    /// Memory that this thread allocated during the line and did not free, in bytes. It is the sum
    /// over all hits, and is negative if the thread freed more.
    pub increment_bytes: i64,
    /// Number of times that the line ended while memory was counted.
    pub occurrences: u64,
}
