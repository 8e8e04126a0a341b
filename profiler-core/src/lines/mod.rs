//! Lines: how often each line of a function ran, how long, and what it did to memory.
//!
//! As Python's `line_profiler` and `memory_profiler` see a program. The lines are told by code that
//! `mlprof run --lines` has put into functions, through the C functions of the module `abi`; a
//! [`LineProfiler`] reports what they found, as a [`LinesReport`] that
//! [`report::lines::text`](crate::report::lines::text) prints as `line_profiler` does and
//! [`report::lines::memory`](crate::report::lines::memory) as `memory_profiler` does.
//!
//! *What is measured*: a hit when a line begins, and wall time on the thread from there until another
//! line of the function begins or the function ends. What other functions do that a line calls is
//! time of the line. What the same function does that a line calls (it calls itself, or a closure of
//! its own whose body has lines) is time of the lines inside and not of the line outside, so that
//! the lines of a function add up to its total. Time that a future is suspended is nobody's; but
//! inside the arguments of a macro, as of `tokio::select!`, it counts for the line of the macro.
//!
//! *Cost*: with lines on about a reading of the clock and two calls per line; see the header of the
//! report for how much on this machine. Off, one relaxed load per call of a function and a test per
//! line. Memory: 40 bytes per line, function and thread that runs at once.
//!
//! *How it fails*: calls that are made while their thread is torn down are not recorded, and
//! counted; a source file that is gone or was changed is said in the report's notes.

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

/// In a forked child, which has the thread that forked and no other: what has been recorded so far
/// is the parent's, and each function's next call on this thread takes the slow path once. For a
/// fork handler: takes no memory.
pub(crate) fn begin_in_child() {
    if registry::begin_in_child(thread::is_own) {
        thread::set_aside();
    }
}

/// Whether anything was recorded.
pub(crate) fn has_run() -> bool {
    registry::all().iter().any(|function| function.blocks().iter().any(|block| block.has_run()))
}

/// A function that lines can be reported of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredFunction {
    /// Its path: `my_model::net::Net::forward`.
    pub name: String,
    /// The absolute path of its file.
    pub file: String,
    /// The line that it begins on, from 1.
    pub first_line: u32,
    /// The line that it ends on.
    pub last_line: u32,
    /// [`source_hash`] of these lines when the program was built.
    pub source_hash: u64,
    /// The lines that can be hit.
    pub points: Vec<u32>,
}

/// Reports the lines that ran in this process.
///
/// There is one set of tallies per process, since before `main`; profilers that are made later
/// report the same ones. Whether spliced code records at all says the word that it looks at
/// (`spliced::wanted::LINES`).
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
    /// Hits and times.
    pub fn new() -> Self {
        Self { started: block::now(), counting: None }
    }

    /// Hits, times and memory, as long as this profiler lives. Memory is what a
    /// [`TrackingAllocator`](crate::allocation::TrackingAllocator) counts: where none is installed,
    /// the report has a note and no memory.
    ///
    /// *Cost*: about as much again per line.
    pub fn with_memory() -> Self {
        let mut profiler = Self::new();
        profiler.counting = Some(Counting::start());
        memory::want(true);
        profiler
    }

    /// What was recorded so far, by all threads, also while they run. On Linux functions that never
    /// ran are in it without lines.
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
