//! Line profiles: hits, time and memory changes for each line of a function.
//!
//! The reports follow Python's `line_profiler` and `memory_profiler`. `mlprof run --lines`
//! instruments functions with calls of the C functions in the module `abi`. A [`LineProfiler`]
//! reports the results as a [`LinesReport`]. [`report::lines::text`](crate::report::lines::text)
//! prints it like `line_profiler`, and [`report::lines::memory`](crate::report::lines::memory) like
//! `memory_profiler`.
//!
//! *Measurements*:
//!
//! - A hit is counted when a line begins. Its wall time lasts until another line of the function
//!   begins or the function ends.
//! - The time of other functions that a line calls belongs to that line.
//! - A line may call the same function recursively, or a closure in it that has lines. That time
//!   belongs to the inner lines only, so the lines of a function add up to its total.
//! - The time in which a future is suspended is not counted. An exception is a macro argument, as
//!   in `tokio::select!`, where it counts for the line of the macro.
//!
//! *Cost*: with line profiling on, about one clock reading and two calls per line. The header of
//! the report shows the value measured on this machine. Off, it is one relaxed load per function
//! call and one test per line. *Memory*: 40 bytes per line, function and concurrently running
//! thread.
//!
//! *Limitations*: calls during the teardown of their thread are counted as lost. The report's notes
//! name source files that are missing or have changed.

#[doc(hidden)]
pub mod abi;
mod block;
mod memory;
mod registry;
mod summarize;
mod thread;
mod writer;

#[cfg(all(test, not(loom)))]
mod tests;

use serde::{Deserialize, Serialize};

pub use mlprof_events::source_hash;
pub use writer::PeriodicWriter;

use crate::allocation::Counting;
use crate::report::LinesReport;

/// Resets the recordings in a forked child, which contains only the thread that forked. The
/// recordings belong to the parent. The next call of each function on this thread takes the slow
/// path once. This function does not allocate, so a fork handler may call it.
pub(crate) fn begin_in_child() {
    if registry::begin_in_child(thread::is_own) {
        thread::set_aside();
    }
}

/// Returns `true` if any line was recorded.
pub(crate) fn has_run() -> bool {
    registry::all().iter().any(|function| function.blocks().iter().any(|block| block.has_run()))
}

/// A function with line profiling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredFunction {
    /// Path of the function: `my_model::net::Net::forward`.
    pub name: String,
    /// Absolute path of its source file.
    pub file: String,
    /// First line, counted from 1.
    pub first_line: u32,
    /// Last line.
    pub last_line: u32,
    /// [`source_hash`] of these lines at build time.
    pub source_hash: u64,
    /// Lines that can be hit.
    pub points: Vec<u32>,
}

/// Reports the lines that ran in this process.
///
/// Each process has one set of tallies, which exists before `main`. A profiler that is created
/// later reports the same tallies. The flag `spliced::wanted::LINES` controls whether instrumented
/// code records.
#[derive(Debug)]
pub struct LineProfiler {
    started: u64,
    counting: Option<Counting>,
}

impl Default for LineProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl LineProfiler {
    /// Creates a profiler for hits and times.
    pub fn new() -> Self {
        Self { started: block::now(), counting: None }
    }

    /// Creates a profiler for hits, times and memory, which it measures until dropped. A
    /// [`TrackingAllocator`](crate::allocation::TrackingAllocator) counts the memory. Without one,
    /// the report has a note instead of memory values.
    ///
    /// *Cost*: about twice the time per line.
    pub fn with_memory() -> Self {
        let mut profiler = Self::new();
        profiler.counting = Some(Counting::start());
        memory::want(true);
        profiler
    }

    /// Returns the lines recorded so far by all threads, including running ones. On Linux,
    /// functions that never ran are listed without lines.
    pub fn report(&self) -> LinesReport {
        summarize::report(self.started, self.counting.is_some())
    }
}

impl Drop for LineProfiler {
    fn drop(&mut self) {
        if self.counting.is_some() {
            memory::want(false);
        }
    }
}
