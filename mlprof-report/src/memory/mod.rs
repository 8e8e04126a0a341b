//! Report of the memory profiler: allocations per action, and the call paths that own the live
//! memory at the peak and at the end.

mod paint;

use serde::Serialize;

#[cfg(feature = "html")]
pub(crate) use self::paint::{actions_table, tree_table};
#[doc(hidden)]
pub use self::paint::{paint, paint_on_console};
use super::finding::Finding;
use super::{OpenAction, ReportHeader, label};
use crate::value::report_value;
use mlprof_events::ActionKind;
use mlprof_events::Tallies;

report_value! {
/// Memory report of one stage. Sizes are in bytes, as requested by the program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryReport from MemoryReportParts {
    /// Run, stage, wall time and measurement overhead.
    pub header: ReportHeader,
    /// Memory of the whole process.
    pub process: ProcessMemory,
    /// Actions summed over all threads, one row each, in descending order of allocated bytes.
    pub actions: Vec<ActionMemory>,
    /// Actions by thread.
    pub threads: Vec<ThreadMemory>,
    /// Memory that was live at the peak, by the call path that allocated it.
    pub peak: MemoryTree,
    /// Memory that this stage allocated and that is still live, by the call path that allocated it.
    /// Empty at the end of a program that frees all its memory.
    pub alive: MemoryTree,
    /// Large copies by the call path that made them. Each block is one copy. Recorded only for
    /// programs built by `mlprof run`, and for programs that report copies themselves
    /// (`allocation::copied`).
    pub copies: MemoryTree,
    /// Actions that were still running when the report was made.
    pub open: Vec<OpenAction>,
    /// Findings: detected causes of avoidable cost. Filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

/// Memory of all threads, inside and outside of actions.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ProcessMemory {
    /// Allocations and frees from the start of the stage to its end, or to now if it is running.
    pub total: Tallies,
    /// Live memory of the process at the end of the stage or now, in bytes. It is negative if
    /// memory from before the start of counting was freed later.
    pub live_bytes: i64,
    /// Live memory at the start of the stage, in bytes.
    pub live_at_start_bytes: i64,
    /// Largest live memory during the stage, in bytes.
    pub peak_bytes: i64,
    /// Uncertainty of the live and peak memory, in bytes for each other running thread.
    pub uncertainty_bytes_per_thread: u64,
}

/// Rows of one thread, or of all threads with one name.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ThreadMemory {
    /// Name of the thread, or `thread-N` if it has none.
    pub thread: String,
    /// Number of threads with this name.
    pub threads: u64,
    /// One row per action, in descending order of allocated bytes.
    pub actions: Vec<ActionMemory>,
}

/// Memory of one action: the allocations and frees of all its finished calls, each on its own
/// thread.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionMemory {
    /// Name of the action.
    pub action: String,
    /// Kind of the action.
    pub kind: ActionKind,
    /// Nested stage that the row belongs to, if any.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// Number of finished calls.
    pub calls: u64,
    /// Allocations and frees including nested actions. A recursive call is counted in `calls` but
    /// not again here. The net value is the memory that the calls left behind, minus older blocks
    /// that they freed.
    pub total: Tallies,
    /// Allocations and frees without nested actions. These values add up.
    pub own: Tallies,
    /// Largest increase of the thread's live memory above its value at the start of a call, in
    /// bytes. It is the maximum over all calls.
    pub peak_bytes: u64,
}

impl ActionMemory {
    /// Returns the name, prefixed with the nested stage if there is one.
    pub fn label(&self) -> String {
        label::with_stage(self.sub_stage, &self.action)
    }
}

/// Blocks that were live at one moment, by the call path that allocated them.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryTree {
    /// Live memory of the whole process at that moment in bytes, including blocks that are not in
    /// the tree. `None` if it is unknown.
    pub process_bytes: Option<i64>,
    /// Minimum size of the blocks in the tree, in bytes.
    pub least_block_bytes: u64,
    /// Root of the tree, which has no name. Its own blocks were allocated outside of any action.
    pub blocks: PathMemory,
}

/// Live blocks of one call path and the paths below it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct PathMemory {
    /// Name of the last action of the path.
    pub action: String,
    /// Bytes, including the paths below.
    pub bytes: u64,
    /// Number of blocks, including the paths below.
    pub blocks: u64,
    /// Bytes, without the paths below.
    pub own_bytes: u64,
    /// Number of blocks, without the paths below.
    pub own_blocks: u64,
    /// Paths below this one, in descending order of bytes.
    pub inside: Vec<PathMemory>,
}
