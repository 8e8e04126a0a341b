//! Report of the Advanced profiler: per-action function profiles and per-thread call trees.

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

/// Name that reports show in place of an action for work outside of any action.
pub const OUTSIDE: &str = "(outside of any action)";

report_value! {
/// Advanced report of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct AdvancedReport from AdvancedReportParts {
    /// Run, stage, wall time and measurement overhead.
    pub header: ReportHeader,
    /// One profile per action, all threads together, the longest total first. In the first report
    /// of a process also its start-up, which is no thread's.
    pub actions: Vec<ActionProfile>,
    /// Call tree of every thread. Threads with the same name share one entry.
    pub threads: Vec<ThreadCallTree>,
    /// Actions and functions that were still running when the report was made.
    pub open: Vec<OpenAction>,
    /// Sampling estimates for code without instrumentation (feature `sampling`). `None` without
    /// sampling.
    #[serde(default)]
    pub samples: Option<Samples>,
    /// Device regions measured by the device's own clock, ordered by total time, longest first. The
    /// other fields do not include this time.
    #[serde(default)]
    pub device_regions: Vec<DeviceRegion>,
    /// Step durations by stage. Empty if no training loop reported steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_series: Vec<StepSeries>,
    /// Findings: detected causes of avoidable cost. Filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

report_value! {
/// Profile of one action: everything that ran below it, including the action itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionProfile from ActionProfileParts {
    /// Name of the action.
    pub action: String,
    /// Nested stage that the action belongs to, if any (see
    /// [`ActionStatistics::sub_stage`](super::simple::ActionStatistics::sub_stage)).
    pub sub_stage: Option<mlprof_events::Stage>,
    /// Number of calls of the action.
    pub calls: u64,
    /// Total time from start to end over all calls, in seconds.
    pub total_seconds: f64,
    /// Functions, spans and nested actions, including the action itself. Ordered by cumulative
    /// time, longest first.
    pub functions: Vec<FunctionStatistics>,
    /// Device time of an action that submitted work to a device. `None` if it was not measured (see
    /// `AdvancedProfiler::measure_devices`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceTime>,
}
}

impl ActionProfile {
    /// Returns the name shown in reports and file names. The name of a nested stage is prepended,
    /// as in `[SanityCheck]validation_step`.
    #[doc(hidden)]
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }
}

report_value! {
/// Function identity as in Python's `pstats`. Actions and spans without a source location have file
/// `~` and line 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FunctionKey from FunctionKeyParts {
    /// Source file path.
    pub file: String,
    /// Line number, from 1. 0 if it is unknown.
    pub line: u32,
    /// Name of the function, span or action.
    pub name: String,
}
}

report_value! {
/// Calls and times of one function below one action, in seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct FunctionStatistics from FunctionStatisticsParts {
    /// Identity of the function.
    pub function: FunctionKey,
    /// Call counts and times (`ncalls`, `tottime`, `cumtime`).
    pub calls: CallStatistics,
    /// Calls and times grouped by caller. Empty for the action itself unless it recursed.
    pub callers: Vec<CallerStatistics>,
}
}

report_value! {
/// Calls that came from one caller.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CallerStatistics from CallerStatisticsParts {
    /// Identity of the caller.
    pub caller: FunctionKey,
    /// Call counts and times of these calls.
    pub calls: CallStatistics,
}
}

report_value! {
/// Counts and times as Python's `cProfile` defines them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CallStatistics from CallStatisticsParts {
    /// Number of all calls, including recursive ones (`nc`).
    pub total_calls: u64,
    /// Number of primitive calls (`cc`), which are not made from inside a call of the same
    /// function.
    pub primitive_calls: u64,
    /// Number of polls of an async function, summed over all calls. 0 if no call was polled more
    /// than once. The times of an async function are the times spent in its polls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub polls: u64,
    /// Self time (`tt`, `tottime`) in seconds.
    pub self_seconds: f64,
    /// Inclusive time of the primitive calls (`ct`, `cumtime`) in seconds.
    pub cumulative_seconds: f64,
}
}

pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Call tree of a thread, of unlimited depth. It is dropped, cloned, compared, serialized and
/// deserialized without recursion.
///
/// In JSON, `roots` holds the tree down to 50 levels, so that parsers with a nesting limit can read
/// it. `deeper` lists the subtrees below that limit as objects with two fields:
///
/// - `parent`: index of the parent node. Nodes are indexed from 0 in the order in which they appear
///   in the file.
/// - `children`: the parent's children, again down to 50 levels.
#[derive(Debug)]
#[non_exhaustive]
pub struct ThreadCallTree {
    /// Name of the thread, or `thread-N` if it has none.
    pub thread: String,
    /// Number of threads with this name.
    pub threads: u64,
    /// Functions called at the top level of the thread.
    pub roots: Vec<CallTreeNode>,
}

impl ThreadCallTree {
    #[doc(hidden)]
    pub fn new(thread: String, threads: u64, roots: Vec<CallTreeNode>) -> Self {
        Self { thread, threads, roots }
    }
}

report_value! {
/// Function at one position of a call tree. Times are in seconds.
///
/// A recursive call is counted at the node where the function first appears on the path. There
/// `calls.total_calls` exceeds `calls.primitive_calls`. Recursion therefore does not make the tree
/// deeper.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CallTreeNode from CallTreeNodeParts {
    /// Identity of the function.
    pub function: FunctionKey,
    /// Kind of the function, span or action.
    pub kind: ActionKind,
    /// Calls and times at this position of the tree.
    pub calls: CallStatistics,
    /// Functions called from this node.
    pub children: Vec<CallTreeNode>,
}
}
