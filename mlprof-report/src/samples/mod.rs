//! Sampling results: estimated shares of all functions in the time of each action.

pub(crate) mod folded;
pub(crate) mod waits;

use serde::Serialize;

use super::{Overhead, ReportHeader, SCHEMA_VERSION, Units};
use crate::missing::Missing;
use crate::value::report_value;
use mlprof_events::{RunContext, UtcTime};

report_value! {
/// Report of a standalone `sampler::Sampler`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SamplesReport from SamplesReportParts {
    /// Run and wall time.
    pub header: ReportHeader,
    /// The sampling results.
    pub samples: Samples,
}
}

impl SamplesReport {
    /// Creates the report of a sampler that started at the given time.
    #[doc(hidden)]
    pub fn new(samples: Samples, started_at: UtcTime, run: &RunContext) -> Self {
        let header = ReportHeader {
            schema_version: SCHEMA_VERSION,
            units: Units::default(),
            stage: None,
            rank: run.rank,
            world_size: run.world_size,
            started_at,
            wall_seconds: samples.seconds,
            build: None,
            program: None,
            machine: None,
            frameworks: Vec::new(),
            startup: None,
            overhead: Overhead::default(),
            settings: Vec::new(),
            notes: Vec::new(),
        };
        Self { header, samples }
    }
}

/// Sampling results, which are estimates.
///
/// A *tick* is one expiry of a thread's timer. A thread is *stalled* if it cannot be interrupted at
/// that time. It is then ready without a processor, or waits for a disk. Its ticks count at the
/// point where it continues.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Samples {
    /// Requested sampling rate in hertz.
    pub asked_hz: f64,
    /// Effective sampling rate in hertz: `asked_hz` times the share of ticks with a sample of their
    /// own.
    pub reached_hz: f64,
    /// Duration of the sampling in seconds.
    pub seconds: f64,
    /// Thread time that one tick represents, in seconds.
    pub seconds_per_tick: f64,
    /// Number of samples taken.
    pub samples: u64,
    /// Number of ticks that were dropped because a thread's buffer was full.
    pub dropped_ticks: u64,
    /// Time spent in the signal handlers, in seconds, summed over all threads. The larger cost of
    /// signals in the operating system is not included.
    pub handler_seconds: f64,
    /// CPU time of the whole process during the sampling, in seconds.
    pub processor_seconds: f64,
    /// CPU time that was not sampled, in seconds. It passed between the end of a long wait and the
    /// next check of the thread.
    pub unsampled_processor_seconds: f64,
    /// One table per action, summed over all threads, in descending order of work. Samples outside
    /// of any action have their own table.
    pub actions: Vec<ActionSamples>,
    /// Ticks of each thread. Threads with the same name share one entry.
    pub threads: Vec<ThreadSamples>,
    /// Functions that tables and stacks refer to by index.
    pub functions: Vec<SampledCode>,
    /// Stack tree as a list, in which parents come before their children.
    pub stacks: Vec<StackNode>,
    /// Notes that are needed to interpret the numbers.
    pub notes: Vec<String>,
}

impl Samples {
    /// Creates the result for a forked process, which only has a copy of a sampler.
    pub fn of_forked_child() -> Self {
        Self::of_nothing("this process was forked from a sampled process and is not sampled itself")
    }

    /// Returns the reason for missing samples, or `None` if there are samples.
    pub fn missing(&self) -> Option<Missing> {
        match self.notes.first() {
            // A sampler that did not run has a single note with the reason.
            Some(reason) if self.asked_hz == 0.0 => Some(Missing::Sampler(reason.clone())),
            _ if self.samples == 0 => Some(Missing::Samples {
                hz: self.asked_hz as u64,
                milliseconds: (self.seconds * 1e3) as u64,
            }),
            _ => None,
        }
    }

    /// Creates the result of a sampler that does not run.
    pub fn of_nothing(reason: impl Into<String>) -> Self {
        Self { notes: vec![reason.into()], ..Self::default() }
    }

    /// Returns the function of a table row.
    pub fn function(&self, row: &SampledFunction) -> Option<&SampledCode> {
        self.functions.get(row.function as usize)
    }

    /// Returns the estimated work of all threads, in seconds.
    pub fn working_seconds(&self) -> f64 {
        let ticks: u64 = self.threads.iter().map(|thread| thread.working_ticks).sum();
        ticks as f64 * self.seconds_per_tick
    }

    pub(super) fn name_of(&self, node: &StackNode) -> String {
        match (&node.action, node.function) {
            (Some(action), _) => super::label::with_stage(node.sub_stage, action),
            (None, Some(function)) => {
                self.functions.get(function as usize).map_or_else(String::new, |f| f.name.clone())
            }
            (None, None) => String::new(),
        }
    }
}

/// Number of samples, and the ticks that they represent.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SampleCounts {
    /// Number of working samples.
    pub samples: u64,
    /// Ticks of work on a processor.
    pub working_ticks: u64,
    /// Ticks of waiting, asleep in a system call.
    pub waiting_ticks: u64,
    /// Ticks in which the thread was stalled: ready without a processor, or waiting for a disk.
    pub stalled_ticks: u64,
}

/// Samples taken while an action was open, on the threads that had it open.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionSamples {
    /// Name of the action.
    pub action: String,
    /// Nested stage that the action belongs to, if any.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// Counts of all samples, including those of nested actions.
    pub all: SampleCounts,
    /// Sum of the squared working ticks of the samples.
    pub squared_ticks: u64,
    /// One row per function, in descending order of self work.
    pub functions: Vec<SampledFunction>,
}

impl ActionSamples {
    /// Returns the name with its nested stage, as reports show it.
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }

    /// Returns the share of `counts` in the action's work, 0 to 1, and its standard error.
    ///
    /// The error is that of n independent samples: √(p (1 − p) / n). Samples that represent several
    /// ticks reduce the effective n. They occur at rates that the signal handler cannot sustain.
    pub fn share(&self, counts: &SampleCounts) -> (f64, f64) {
        if self.all.working_ticks == 0 {
            return (0.0, 0.0);
        }
        let all = self.all.working_ticks as f64;
        let share = counts.working_ticks as f64 / all;
        (share, (share * (1.0 - share) * self.squared_ticks as f64).sqrt() / all)
    }
}

/// Samples of one function in an action.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SampledFunction {
    /// Index into [`Samples::functions`].
    pub function: u32,
    /// Samples of the function itself.
    #[serde(rename = "self")]
    pub own: SampleCounts,
    /// Samples of the function and its callees.
    pub total: SampleCounts,
}

/// A sampled function, as described by debug information or a symbol table.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SampledCode {
    /// Demangled name. Without a name, it is `library+0x123`, an address in the file.
    pub name: String,
    /// File name of the program or shared library. Empty if the function is in neither.
    pub library: String,
    /// Source file, if debug information contains it.
    pub file: Option<String>,
    /// Most frequently sampled line of the source file.
    pub line: Option<u32>,
}

/// Ticks of the threads with one name.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ThreadSamples {
    /// Name as stored by the operating system, up to 15 bytes. `main` for the first thread.
    pub thread: String,
    /// Number of threads with this name.
    pub threads: u64,
    /// Ticks of work.
    pub working_ticks: u64,
    /// Ticks of waiting.
    pub waiting_ticks: u64,
    /// Ticks in which the threads were ready without a processor, or waited for a disk.
    pub stalled_ticks: u64,
}

/// Node of the stack tree: an action, or a function below it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StackNode {
    /// Index of the parent node. `None` for a root.
    pub parent: Option<u32>,
    /// Name of the action, if the node is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Nested stage that the action belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_stage: Option<mlprof_events::Stage>,
    /// Index of the function in [`Samples::functions`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<u32>,
    /// Ticks of work in the node itself.
    pub working_ticks: u64,
    /// Ticks of waiting in the node itself.
    pub waiting_ticks: u64,
}
