//! What the profiler of memory found: per action, what was allocated and freed; and who allocated
//! what was alive when the process had most, and at the end.

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
/// The numbers of one stage. Memory in bytes, as the program asked for them.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryReport from MemoryReportParts {
    /// Which run and stage; wall time; what measuring cost.
    pub header: ReportHeader,
    /// The process.
    pub process: ProcessMemory,
    /// All threads together, one row per action, the most allocated first.
    pub actions: Vec<ActionMemory>,
    /// The same per thread.
    pub threads: Vec<ThreadMemory>,
    /// Who had allocated what was alive when the process had most.
    pub peak: MemoryTree,
    /// Who has allocated what is still alive of what this stage allocated. At the end of a program
    /// that frees what it allocates this is empty.
    pub alive: MemoryTree,
    /// Who copied how much in large copies; a block is one copy. Known only of programs built by
    /// `mlprof run`, and of those that say so (`allocation::copied`).
    pub copies: MemoryTree,
    /// Actions still running.
    pub open: Vec<OpenAction>,
    /// What costs time that could be saved; filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

/// What all threads together allocated, inside of actions and outside.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ProcessMemory {
    /// Allocated and freed from the beginning of the stage to its end, or until now.
    pub total: Tallies,
    /// Alive at the end, or now, of all that was counted in the process, in bytes. Below 0 if
    /// counting began after much had been allocated that was freed later.
    pub live_bytes: i64,
    /// The same at the beginning of the stage.
    pub live_at_start_bytes: i64,
    /// The most that was alive at once, in bytes.
    pub peak_bytes: i64,
    /// By how much the numbers above may be off for every other running thread, in bytes.
    pub uncertainty_bytes_per_thread: u64,
}

/// One thread's rows, or those of all threads of one name.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ThreadMemory {
    /// The thread's name, or `thread-N` for one that has none.
    pub thread: String,
    /// How many threads of this name there were.
    pub threads: u64,
    /// One row per action, the most allocated first.
    pub actions: Vec<ActionMemory>,
}

/// One row: what all calls of one action that have ended allocated and freed on their own threads.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionMemory {
    /// Its name.
    pub action: String,
    /// What it stands for.
    pub kind: ActionKind,
    /// The stage inside the reported one that the row belongs to, if any.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// How many calls have ended.
    pub calls: u64,
    /// With the actions inside. Calls inside a call of the same action are counted in `calls` and
    /// not once more in here. Its net is what the calls left behind: blocks that live on, less
    /// blocks from before that they freed.
    pub total: Tallies,
    /// Without the actions inside: these add up.
    pub own: Tallies,
    /// The most that the thread had allocated and not freed during a call, above what it had at the
    /// start of that call, in bytes: of the call with the highest.
    pub peak_bytes: u64,
}

impl ActionMemory {
    /// The name, with the stage that the row belongs to if that is not the reported one.
    pub fn label(&self) -> String {
        label::with_stage(self.sub_stage, &self.action)
    }
}

/// Blocks by the call path that allocated them: those that were alive at one moment.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MemoryTree {
    /// All that was alive in the process at that moment, in bytes, with what is not in the tree; if
    /// that is not known, `None`.
    pub process_bytes: Option<i64>,
    /// Blocks of this size and larger are in the tree, in bytes.
    pub least_block_bytes: u64,
    /// The root, which has no name: what is directly in it was allocated outside of any action.
    pub blocks: PathMemory,
}

/// What one call path and those inside it allocated of what was alive at one moment.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct PathMemory {
    /// The name of the action that the path ends in.
    pub action: String,
    /// With the paths inside, in bytes.
    pub bytes: u64,
    /// With the paths inside, in blocks.
    pub blocks: u64,
    /// Without the paths inside, in bytes.
    pub own_bytes: u64,
    /// Without the paths inside, in blocks.
    pub own_blocks: u64,
    /// The paths inside, the most bytes first.
    pub inside: Vec<PathMemory>,
}
