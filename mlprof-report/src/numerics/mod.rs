//! What the numerics profiler found: the numbers in what modules and ops return, in losses, gradients and parameters.

mod interval;
mod paint;
mod record;
mod shown_number;
mod sketch;
mod statistics;
mod statistics_reader;
mod trouble;

use mlprof_events::TensorRole;
use serde::Serialize;

pub use self::interval::{FaultInterval, IntervalEnd};
#[doc(hidden)]
pub use self::paint::paint;
#[cfg(feature = "html")]
pub(crate) use self::paint::{run_again, tensors_table, whereabouts};
pub use self::record::RecordedTensor;
#[doc(hidden)]
pub use self::record::RecordedTensorParts;
#[doc(hidden)]
pub use self::record::{RECORD_VERSION, RecordHeader, op_in_module};
pub(crate) use self::shown_number::{shown_norm, shown_number};
#[doc(hidden)]
pub use self::sketch::{SKETCH, Sketcher};
pub use self::statistics::TensorStatistics;
#[doc(hidden)]
pub use self::statistics::TensorStatisticsParts;
#[doc(hidden)]
pub use self::statistics::{SAMPLE, sample_every, sampled_numbers};
#[doc(hidden)]
pub use self::statistics_reader::StatisticsReader;
#[doc(hidden)]
pub use self::trouble::troubles;
#[cfg(feature = "findings")]
pub(crate) use self::trouble::{FoundTrouble, TroubleLimits, has_enough, troubles_by};
pub use self::trouble::{Trouble, TroubleKind};
use super::ReportHeader;
use crate::finding::Finding;
use crate::value::report_value;

report_value! {
/// The numbers of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct NumericsReport from NumericsReportParts {
    /// Which run and stage; wall time; what measuring cost.
    pub header: ReportHeader,
    /// How many steps the stage had.
    pub steps: u64,
    /// Of how many of them the numbers were recorded.
    pub recorded_steps: u64,
    /// Whether all tensors of all steps were looked at for NaN and infinity.
    pub is_watched: bool,
    /// The first tensor that was not finite, if there was one.
    pub first_not_finite: Option<RecordedTensor>,
    /// If that is none of an op: the first op, in the step after it, that made what is not finite of what was.
    #[serde(default)]
    pub first_op_not_finite: Option<Box<RecordedTensor>>,
    /// How many tensors were not finite; of those of ops only such whose inputs were.
    pub not_finite: u64,
    /// What a second run of that step's batch has shown, where the trainer made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Box<Rerun>>,
    /// One row for each place, in the order in which they were first seen.
    pub tensors: Vec<TensorRow>,
    /// What comes before a NaN or keeps a network from learning, the worst first.
    pub troubles: Vec<Trouble>,
    /// How many tensors were left out of the record, because a step had more than it keeps.
    pub dropped: u64,
    /// The record, where it was written, and the first tensor that was not finite, where it was saved.
    pub files: Vec<String>,
    /// What is wrong, as it was found when the report was delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

/// What was seen when a step's batch was run again, with all of its numbers recorded, from the parameters that it had run with before.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Rerun {
    /// Which step.
    pub step: u64,
    /// How many tensors were recorded.
    pub tensors: u64,
    /// The first of them that was not finite. `None`: all were, as what is random, such as dropout, was different.
    pub first_not_finite: Option<RecordedTensor>,
    /// Why it ended early, if it did.
    pub failure: Option<String>,
}

report_value! {
/// All tensors of one place, over all recorded steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TensorRow from TensorRowParts {
    /// What they are for.
    pub role: TensorRole,
    /// The module that returned them, the op in its module, or the parameter.
    pub name: String,
    /// The type of the elements of the last one.
    pub element_type: String,
    /// The shape of the last one.
    pub shape: Vec<u64>,
    /// How many there were.
    pub tensors: u64,
    /// The numbers of the first one.
    pub first: TensorStatistics,
    /// The numbers of the last one.
    pub last: TensorStatistics,
    /// The numbers of all of them together.
    pub all: TensorStatistics,
}
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
