//! Two sides of a comparison: what got slower or faster, by how much, and whether that is beyond what
//! varies anyway.
//!
//! [`compare`] takes the reports of a program before and after a change, of one run each or of several,
//! and gives a [`Comparison`], a value. Reports of one kind of profiler, one stage and one rank are
//! compared with each other.
//!
//! # The rule
//!
//! What is compared is the time of a typical call or step, the median, not the mean. A row is
//! [slower](Verdict::Worse) or [faster](Verdict::Better) if the sides differ by more than chance
//! makes equal runs differ. The probability is that of the whole comparison: of a hundred
//! comparisons of equal runs at most one says so of any row that is [enough](LEAST_SHARE) of the
//! run, however many rows there are (each has an equal part of that 1 %), and at most one of any
//! other row. [`ComparedRow::sure_change`] is the bound of the change at that confidence.
//!
//! * Calls of one run: how well the median is known is told by the order of calls
//!   ([`MedianLimits`](crate::simple::MedianLimits)). It needs eight calls besides the first one, which is
//!   left out. Calls depend on those before them: as much as the steps of the run do, which are known in
//!   the order of time. In a run without steps they are taken to depend on each other strongly (with a
//!   correlation of 0.9), so that nineteen say as much as one that is independent.
//! * Steps of one run: their median, in the same way. If the medians of the ten tenths of the run
//!   differ by more than chance, the run drifts: then all that lies between the least and the greatest
//!   of them is variation, of steps and of whatever runs in them.
//! * Steps that share an entry are compared by the histogram of single steps.
//! * Calls of an op, a kernel or an action that a Tensor report has: by the standard error of their mean,
//!   without the first call, where there are as many.
//! * Several runs of a side: of three runs and more on both sides, by what runs vary (Student's t), so that
//!   runs of which nothing is known but a sum can be judged. Of fewer, by all that is between them besides.
//! * Times of less than three runs are known within 2 % at the best.
//! * What is known step by step ([`compare_steps`], for traces) is treated like steps.
//! * What is counted, bytes and blocks, is known within half a percent.
//!
//! One run of each side does not show what varies from run to run, such as a machine that others use,
//! or where memory happens to lie: for such runs no rate of false alarms is promised.
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
mod words;

use serde::Serialize;

pub use self::pairs::compare;
pub use self::regression::Regression;
pub use self::series::{SteppedRow, SteppedRun, compare_steps};
pub use self::text::TextOptions;
pub use self::verdict::LEAST_SHARE;
use mlprof_events::Stage;

/// What became of the reports of one side on the other.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// One for each kind of profiler, stage and rank that both sides have.
    pub parts: Vec<ComparedReports>,
    /// What a reader of the numbers must know.
    pub notes: Vec<String>,
}

/// Reports of one kind of profiler, one stage and one rank.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedReports {
    /// The kind of profiler: `Simple`, …; `trace` where traces are compared.
    pub profiler: &'static str,
    /// The stage.
    pub stage: Option<Stage>,
    /// The rank, where there are several.
    pub rank: Option<u32>,
    /// The runs before.
    pub before: Runs,
    /// The runs after.
    pub after: Runs,
    /// What differs between the sides besides times, and what that means for the numbers.
    pub notes: Vec<String>,
    /// The rows.
    pub tables: Vec<ComparedTable>,
}

/// The runs of one side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Runs {
    /// How many.
    pub runs: usize,
    /// When the first of them began (UTC, RFC 3339).
    pub started_at: mlprof_events::UtcTime,
    /// How long they took, in seconds: the median.
    pub wall_seconds: f64,
    /// How many training steps each has, if that is known, and the same for all.
    pub steps: Option<u64>,
}

/// What rows are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Subject {
    /// The run as a whole.
    Run,
    /// Steps of the training loop, and the parts of them.
    Steps,
    /// Actions.
    Actions,
    /// Actions, by the clocks of devices.
    ActionsOnDevice,
    /// Regions of devices, by their clocks.
    DeviceRegions,
    /// Ops, by host time of their own.
    Ops,
    /// Ops and kernels, by device time of their own.
    Kernels,
    /// Modules, by host time of their own.
    Modules,
    /// Modules, by device time of their own.
    ModulesOnDevice,
    /// Functions, by time of their own.
    Functions,
    /// Functions whose lines were timed.
    Lines,
    /// Bytes.
    Memory,
    /// The most bytes at once.
    Peak,
    /// Blocks of memory.
    Blocks,
}

/// What numbers are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Times.
    Seconds,
    /// Sizes.
    Bytes,
    /// Numbers of things.
    Count,
}

/// Rows of one subject, what got worse first, and of that what weighs most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedTable {
    /// What the rows are of.
    pub subject: Subject,
    /// What the numbers are in.
    pub unit: Unit,
    /// What they are of, in words: `the median of calls`.
    pub per: &'static str,
    /// The rows.
    pub rows: Vec<ComparedRow>,
}

/// One action, op, … on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedRow {
    /// Its name.
    pub name: String,
    /// Before; `None` where only the other side has it.
    pub before: Option<Measured>,
    /// After.
    pub after: Option<Measured>,
    /// How much more it is after, as a part of what it was before: 0.05 for 5 % more. With how often it
    /// was called, where the two sides do the same number of steps. `None` of what only one side has.
    pub change: Option<f64>,
    /// How much more it is at the least, if it is more; at the most, and below 0, if it is less. 0 where
    /// the difference may be chance. It allows for the number of rows.
    pub sure_change: Option<f64>,
    /// The part that it is of the run, on the side where that is more: 0 to 1.
    pub share: f64,
    /// What that means.
    pub verdict: Verdict,
}

/// What was measured on one side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// The typical call or step; of several runs the median of theirs.
    pub value: f64,
    /// Between these it is with a confidence of 99 %, for this row and this side alone.
    pub limits: Option<Limits>,
    /// How many calls of a run that is, in the mean of the runs.
    pub calls: f64,
}

/// Between which numbers something is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// No less than this.
    pub low: f64,
    /// No more than this.
    pub high: f64,
}

/// What the numbers of the two sides mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Slower, or more memory, beyond what varies anyway.
    Worse,
    /// Faster, or less memory, beyond what varies anyway.
    Better,
    /// The side after has it alone.
    OnlyAfter,
    /// The side before has it alone.
    OnlyBefore,
    /// Any difference is within what varies anyway.
    Same,
    /// There are too few calls to tell: fewer than eight, or so few among so many rows that not
    /// even twice as much would be seen.
    TooFew,
    /// The reports do not say how calls vary, and there are less than three runs of each side.
    Unknown,
}
