//! Comparison of runs before and after a change: the rows that got slower or faster, the size of
//! the change, and its statistical significance.
//!
//! [`compare`] takes the reports of one or several runs before and after a change and returns a
//! [`Comparison`]. It compares reports with the same kind of profiler, stage and rank.
//!
//! # The rule
//!
//! The rule compares the time of a typical call or step, which is the median and not the mean. A
//! row is [slower](Verdict::Worse) or [faster](Verdict::Better) if the sides differ by more than
//! chance makes equal runs differ.
//!
//! The error probability applies to the whole comparison. Of a hundred comparisons of equal runs,
//! at most one reports a change in any row with at least [`LEAST_SHARE`] of the run. At most one
//! reports a change in any smaller row. This holds for any number of rows, because each row
//! receives an equal part of the 1 %. [`ComparedRow::sure_change`] is the bound of the change at
//! that confidence.
//!
//! * Calls of one run: the order statistics of the calls give the confidence limits of the median
//!   ([`MedianLimits`](crate::simple::MedianLimits)). The first call is left out, and at least
//!   eight others are required. Consecutive calls are assumed to correlate as strongly as the steps
//!   of the run, which are known in chronological order. In a run without steps, the rule assumes a
//!   correlation of 0.9. Nineteen such calls carry as much information as one independent call.
//! * Steps of one run: their median is judged in the same way. The run is also cut into ten parts.
//!   If the medians of the parts differ by more than chance, the run drifts. The whole range of
//!   these medians then counts as variation, for the steps and for everything that runs inside
//!   them.
//! * Steps that share an entry are compared by the histogram of single steps.
//! * Calls of an op, a kernel or an action in a Tensor report: the standard error of the mean
//!   decides. The first call is left out, and the same minimum number of calls applies.
//! * Several runs of a side: with three or more runs on both sides, the variation between the runs
//!   decides (Student's t). This also judges runs with a known sum only. With fewer runs, the whole
//!   difference between the runs of a side is added to the uncertainty.
//! * With fewer than three runs, a time is known within 2 % at best.
//! * Values that are known for each step ([`compare_steps`], for traces) are treated like steps.
//! * Counts of bytes and blocks are known within 0.5 %.
//!
//! One run per side cannot show the variation between runs, which other users of the machine or the
//! memory layout can cause. For such comparisons, no false-alarm rate is guaranteed.
//!
//! ```
//! use mlprof_core::report::comparison::compare;
//! # use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
//! # let run = || {
//! #     let profiler = SimpleProfiler::new();
//! #     drop(profiler.profile("load"));
//! #     profiler.report().expect("it has one")
//! # };
//! # let (before, after) = (run(), run());
//! let comparison = compare(&[before], &[after])?;
//! println!("{}", comparison.text());
//! for regression in comparison.regressions(0.05) {
//!     println!("{regression}");
//! }
//! # Ok::<(), mlprof_core::report::Error>(())
//! ```

mod advanced;
mod dependence;
mod format;
mod lines;
mod memory;
mod pairs;
mod regression;
mod rows;
mod runs;
mod series;
mod side;
mod simple;
mod spread;
mod steps;
mod student;
mod tensor;
#[cfg(test)]
mod tests;
mod text;
mod uncertainty;
mod verdict;

use serde::Serialize;

pub use self::pairs::compare;
pub use self::regression::Regression;
pub use self::series::{SteppedRow, SteppedRun, compare_steps};
pub use self::text::TextOptions;
pub use self::verdict::LEAST_SHARE;
use mlprof_events::Stage;

/// Result of comparing the reports of two sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// One part for each kind of profiler, stage and rank that both sides have.
    pub parts: Vec<ComparedReports>,
    /// Notes that are needed to interpret the numbers.
    pub notes: Vec<String>,
}

/// Comparison of the reports with one kind of profiler, one stage and one rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedReports {
    /// Kind of profiler, such as `Simple`. `trace` if traces are compared.
    pub profiler: &'static str,
    /// Stage of the reports.
    pub stage: Option<Stage>,
    /// Rank, if there are several.
    pub rank: Option<u32>,
    /// Runs before the change.
    pub before: Runs,
    /// Runs after the change.
    pub after: Runs,
    /// Differences between the sides other than times, and how they affect the numbers.
    pub notes: Vec<String>,
    /// Tables of compared rows, one per subject.
    pub tables: Vec<ComparedTable>,
}

/// Summary of the runs of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Runs {
    /// Number of runs.
    pub runs: usize,
    /// Start time of the earliest run (UTC, RFC 3339).
    pub started_at: mlprof_events::UtcTime,
    /// Median wall time of the runs, in seconds.
    pub wall_seconds: f64,
    /// Number of training steps of each run. `None` if it is unknown or differs between the runs.
    pub steps: Option<u64>,
}

/// Kind of object that the rows of a table describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// The run as a whole.
    Run,
    /// Steps of the training loop and their parts.
    Steps,
    /// Actions.
    Actions,
    /// Device time of actions, by the clocks of the devices.
    ActionsOnDevice,
    /// Device regions, by the clocks of the devices.
    DeviceRegions,
    /// Ops, by self host time.
    Ops,
    /// Ops and kernels, by self device time.
    Kernels,
    /// Modules, by self host time.
    Modules,
    /// Modules, by self device time.
    ModulesOnDevice,
    /// Functions, by self time.
    Functions,
    /// Functions with line timings.
    Lines,
    /// Allocated memory in bytes.
    Memory,
    /// Peak memory in bytes.
    Peak,
    /// Number of allocated memory blocks.
    Blocks,
}

/// Unit of a table's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Times in seconds.
    Seconds,
    /// Sizes in bytes.
    Bytes,
    /// Plain counts.
    Count,
}

/// Compared rows of one subject. Rows that got worse come first, ordered by their effect on the
/// run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedTable {
    /// Kind of object that the rows describe.
    pub subject: Subject,
    /// Unit of the numbers.
    pub unit: Unit,
    /// Statistic that the numbers show, as text: `the median of calls`.
    pub per: &'static str,
    /// Rows of the table.
    pub rows: Vec<ComparedRow>,
}

/// One action, op or other object on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Name of the row.
    pub name: String,
    /// Value before the change. `None` if only the other side has the row.
    pub before: Option<Measured>,
    /// Value after the change. `None` if only the other side has the row.
    pub after: Option<Measured>,
    /// Relative change: 0.05 means 5 % more than before. It includes the change in the number of
    /// calls if both sides have the same number of steps. `None` if only one side has the row, or
    /// if the value before is 0.
    pub change: Option<f64>,
    /// Bound of the relative change at the confidence of the comparison, with the number of rows
    /// taken into account. It is the smallest increase if positive, and the smallest decrease if
    /// negative. 0 if the difference may be chance.
    pub sure_change: Option<f64>,
    /// Share of the run, 0 to 1, on the side with the larger share.
    pub share: f64,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Value measured on one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Value of a typical call or step, in the table's unit. For several runs, the median of their
    /// values.
    pub value: f64,
    /// Confidence limits of the value at 99 %, for this row and this side alone.
    pub limits: Option<Limits>,
    /// Calls per run, as the mean over the runs.
    pub calls: f64,
}

/// Interval that contains a value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

/// Verdict on the difference between the two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Significantly slower, or significantly more memory.
    Worse,
    /// Significantly faster, or significantly less memory.
    Better,
    /// Only the side after the change has the row.
    OnlyAfter,
    /// Only the side before the change has the row.
    OnlyBefore,
    /// The difference is within the normal variation.
    Same,
    /// Too few calls for a verdict: fewer than eight, or too few for the number of rows. In the
    /// second case not even a doubling would be significant.
    TooFew,
    /// The reports do not record how calls vary, and a side has fewer than three runs.
    Unknown,
}
