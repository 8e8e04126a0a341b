//! What the Advanced profiler found: per action, every function below it; per thread, the call tree.

mod deep;
#[doc(hidden)]
pub mod prof;
#[doc(hidden)]
pub mod pstats;
#[doc(hidden)]
pub mod samples;

use serde::Serialize;

use super::finding::Finding;
use super::regions::{DeviceRegion, DeviceTime};
use super::samples::Samples;
use super::steps::StepSeries;
use super::{OpenAction, ReportHeader};
use crate::value::report_value;
use mlprof_events::ActionKind;

/// Stands for the top of a thread where something ran outside of any action.
pub const OUTSIDE: &str = "(outside of any action)";

report_value! {
/// The numbers of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct AdvancedReport from AdvancedReportParts {
    /// Which run and stage; wall time; what measuring cost.
    pub header: ReportHeader,
    /// One profile per action, all threads together, the longest total first. In the first report
    /// of a process also its start-up, which is no thread's.
    pub actions: Vec<ActionProfile>,
    /// The call tree of every thread; threads of one name are one entry.
    pub threads: Vec<ThreadCallTree>,
    /// Actions and functions still running.
    pub open: Vec<OpenAction>,
    /// Estimates for what nothing instruments, where it was sampled (feature `sampling`).
    #[serde(default)]
    pub samples: Option<Samples>,
    /// Regions of devices, by the device's own clock, the longest total first; in none of the other
    /// numbers.
    #[serde(default)]
    pub device_regions: Vec<DeviceRegion>,
    /// How long each step took, by stage; empty where no loop told of steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_series: Vec<StepSeries>,
    /// What costs time that could be saved; filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

report_value! {
/// Everything that ran below one action, the action itself included.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionProfile from ActionProfileParts {
    /// The action's name.
    pub action: String,
    /// The stage inside the reported one that it belongs to, if any (see
    /// [`ActionStatistics::sub_stage`](super::simple::ActionStatistics::sub_stage)).
    pub sub_stage: Option<mlprof_events::Stage>,
    /// How often the action itself ran.
    pub calls: u64,
    /// From its start to its end over all calls, in seconds.
    pub total_seconds: f64,
    /// Functions, spans and nested actions, the action itself among them; longest cumulative
    /// time first.
    pub functions: Vec<FunctionStatistics>,
    /// Device time, where it was measured (`AdvancedProfiler::measure_devices`), of actions that handed
    /// work to a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceTime>,
}
}

impl ActionProfile {
    /// The name as reports and file names show it: profiles of a stage inside the reported one
    /// carry its name, as in `[SanityCheck]validation_step`.
    #[doc(hidden)]
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }
}

report_value! {
/// A function as Python's `pstats` identifies one. Actions and spans without a place in the
/// source have file `~` and line 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FunctionKey from FunctionKeyParts {
    /// The source file.
    pub file: String,
    /// The line, from 1; 0 when unknown.
    pub line: u32,
    /// The name of the function, span or action.
    pub name: String,
}
}

report_value! {
/// Calls and time of one function below one action. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FunctionStatistics from FunctionStatisticsParts {
    /// Which function.
    pub function: FunctionKey,
    /// How often it ran and how long (`ncalls`, `tottime`, `cumtime`).
    pub calls: CallStatistics,
    /// The same, split by who called it. Nothing for the action itself unless it recursed.
    pub callers: Vec<CallerStatistics>,
}
}

report_value! {
/// Calls that came from one caller.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CallerStatistics from CallerStatisticsParts {
    /// Who called.
    pub caller: FunctionKey,
    /// How often, and how long that took.
    pub calls: CallStatistics,
}
}

report_value! {
/// Counts and times as Python's `cProfile` defines them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CallStatistics from CallStatisticsParts {
    /// All calls (`nc`).
    pub total_calls: u64,
    /// Calls that were not made from inside a call of the same function (`cc`).
    pub primitive_calls: u64,
    /// How often an async function was polled, all calls together: 0 where no call was polled more
    /// than once. Its times are those of being polled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub polls: u64,
    /// Time in the function itself (`tt`, `tottime`), in seconds.
    pub self_seconds: f64,
    /// Time from entry to exit of the primitive calls (`ct`, `cumtime`), in seconds.
    pub cumulative_seconds: f64,
}
}

pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The call tree of a thread. Of any depth: dropped, copied, compared, written as JSON and read
/// without recursion.
///
/// In JSON `roots` holds the tree down to 50 levels, so that whatever reads JSON can read it. What is
/// further down is in `deeper`, a list of objects with `parent` and `children`: the parent's number,
/// where nodes are counted from 0 in the order in which they stand in the file, and its children,
/// again down to 50 levels.
#[derive(Debug)]
#[non_exhaustive]
pub struct ThreadCallTree {
    /// The thread's name, or `thread-N` for one that has none.
    pub thread: String,
    /// How many threads of this name there were.
    pub threads: u64,
    /// What ran at the top of the thread.
    pub roots: Vec<CallTreeNode>,
}

impl ThreadCallTree {
    #[doc(hidden)]
    pub fn new(thread: String, threads: u64, roots: Vec<CallTreeNode>) -> Self {
        Self { thread, threads, roots }
    }
}

report_value! {
/// A function at one place of a call tree. Times in seconds.
///
/// A call of a function that is already on the way down is counted at the node where it first
/// stands (`calls.total_calls` above `calls.primitive_calls`), so that recursion does not make the
/// tree deeper.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CallTreeNode from CallTreeNodeParts {
    /// Which function.
    pub function: FunctionKey,
    /// What it stands for.
    pub kind: ActionKind,
    /// Calls and times at this place.
    pub calls: CallStatistics,
    /// What it called.
    pub children: Vec<CallTreeNode>,
}
}
