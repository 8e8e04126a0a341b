//! What sampling found: per action, how its time is shared among all functions, estimated.

pub(crate) mod folded;
pub(crate) mod waits;

use serde::Serialize;

use super::{Overhead, ReportHeader, SCHEMA_VERSION, Units};
use crate::missing::Missing;
use crate::value::report_value;
use mlprof_events::{RunContext, UtcTime};

report_value! {
/// The report of a `sampler::Sampler` that runs on its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SamplesReport from SamplesReportParts {
    /// Which run; wall time.
    pub header: ReportHeader,
    /// The numbers.
    pub samples: Samples,
}
}

impl SamplesReport {
    /// Of a sampler that started at this time.
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

/// What sampling found, as an estimate.
///
/// A *tick* is one expiry of a thread's timer. A thread that cannot be interrupted when it comes (it
/// is ready but has no processor, or waits for a disk) is *stalled*; its ticks count where it goes on.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Samples {
    /// The rate that was asked for, in hertz.
    pub asked_hz: f64,
    /// `asked_hz` times the part of all ticks that were sampled each on its own.
    pub reached_hz: f64,
    /// How long was sampled, in seconds.
    pub seconds: f64,
    /// What one tick stands for, in seconds of one thread.
    pub seconds_per_tick: f64,
    /// How many samples were taken.
    pub samples: u64,
    /// Ticks for which there was no room in a thread's buffer.
    pub dropped_ticks: u64,
    /// The time that the signal handlers took, in seconds of all threads; the system's own part of a
    /// signal, which is larger, is not in it.
    pub handler_seconds: f64,
    /// Processor time of the whole process while it was sampled, in seconds.
    pub processor_seconds: f64,
    /// The part of it that passed unseen between the end of a long wait and the next look at
    /// its thread, in seconds.
    pub unsampled_processor_seconds: f64,
    /// One table per action, all threads together, the most work first; samples outside of any
    /// action have one of their own.
    pub actions: Vec<ActionSamples>,
    /// What each thread did; threads of one name are one entry.
    pub threads: Vec<ThreadSamples>,
    /// The functions that tables and stacks refer to.
    pub functions: Vec<SampledCode>,
    /// A tree: parents stand before what is below them.
    pub stacks: Vec<StackNode>,
    /// What a reader of the numbers must know.
    pub notes: Vec<String>,
}

impl Samples {
    /// Of a process that has only a copy of a sampler.
    pub fn of_forked_child() -> Self {
        Self::of_nothing("this process was forked from one that was sampled, and is not itself")
    }

    /// Why there are none, if that is so.
    pub fn missing(&self) -> Option<Missing> {
        match self.notes.first() {
            // Its only note says why.
            Some(reason) if self.asked_hz == 0.0 => Some(Missing::Sampler(reason.clone())),
            _ if self.samples == 0 => Some(Missing::Samples {
                hz: self.asked_hz as u64,
                milliseconds: (self.seconds * 1e3) as u64,
            }),
            _ => None,
        }
    }

    /// Of a sampler that does not run.
    pub fn of_nothing(reason: impl Into<String>) -> Self {
        Self { notes: vec![reason.into()], ..Self::default() }
    }

    /// The function of a table's row.
    pub fn function(&self, row: &SampledFunction) -> Option<&SampledCode> {
        self.functions.get(row.function as usize)
    }

    /// Work of all threads, in seconds.
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

/// How many samples, and how many ticks they stand for.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SampleCounts {
    /// Samples of work.
    pub samples: u64,
    /// Ticks of work, on a processor.
    pub working_ticks: u64,
    /// Ticks of waiting: asleep in a system call.
    pub waiting_ticks: u64,
    /// Ticks at which the thread was ready but had no processor, or waited for a disk.
    pub stalled_ticks: u64,
}

/// What was sampled while an action was open, on the threads that had it open.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionSamples {
    /// The action's name.
    pub action: String,
    /// The stage inside the reported one that it belongs to, if any.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// All samples, with those of actions inside.
    pub all: SampleCounts,
    /// The squares of the working ticks of each sample, added up.
    pub squared_ticks: u64,
    /// One row per function, the most work in the function itself first.
    pub functions: Vec<SampledFunction>,
}

impl ActionSamples {
    /// The name as reports show it.
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }

    /// The part of the action's work that `counts` is, 0 to 1, and its standard error.
    ///
    /// The error is that of so many independent samples, √(p (1 − p) / n), where samples that stand
    /// for several ticks (at rates that the handler cannot keep up with) make n smaller.
    pub fn share(&self, counts: &SampleCounts) -> (f64, f64) {
        if self.all.working_ticks == 0 {
            return (0.0, 0.0);
        }
        let all = self.all.working_ticks as f64;
        let share = counts.working_ticks as f64 / all;
        (share, (share * (1.0 - share) * self.squared_ticks as f64).sqrt() / all)
    }
}

/// One function's part of an action.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SampledFunction {
    /// Index into [`Samples::functions`].
    pub function: u32,
    /// Samples of the function itself.
    #[serde(rename = "self")]
    pub own: SampleCounts,
    /// Samples of the function and of what it called.
    pub total: SampleCounts,
}

/// A function that was sampled, as debug information or a symbol table knows it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SampledCode {
    /// Its name, demangled; `library+0x123`, an address in the file, if there is none.
    pub name: String,
    /// The file name of the program or shared library; empty if it is in none.
    pub library: String,
    /// The source file, if debug information says so.
    pub file: Option<String>,
    /// The line of it that was sampled most.
    pub line: Option<u32>,
}

/// What the threads of one name did.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ThreadSamples {
    /// The name as the operating system keeps it, 15 bytes; `main` for the first thread.
    pub thread: String,
    /// How many threads of this name there were.
    pub threads: u64,
    /// Ticks of work.
    pub working_ticks: u64,
    /// Ticks of waiting.
    pub waiting_ticks: u64,
    /// Ticks of standing ready without a processor, or waiting for a disk.
    pub stalled_ticks: u64,
}

/// A place in the tree of stacks: an action, or a function below.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StackNode {
    /// The node above, as an index.
    pub parent: Option<u32>,
    /// The action, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The stage that the action belongs to, inside the reported one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_stage: Option<mlprof_events::Stage>,
    /// The function, as an index into [`Samples::functions`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<u32>,
    /// Ticks of work in itself.
    pub working_ticks: u64,
    /// Ticks of waiting in itself.
    pub waiting_ticks: u64,
}
