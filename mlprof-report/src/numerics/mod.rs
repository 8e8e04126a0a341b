//! Report of the numerics profiler: statistics of the numbers in module and op outputs, losses,
//! gradients and parameters.

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
/// Numerics report of one stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct NumericsReport from NumericsReportParts {
    /// Run, stage, wall time and measurement overhead.
    pub header: ReportHeader,
    /// Number of steps of the stage.
    pub steps: u64,
    /// Number of steps with recorded numbers.
    pub recorded_steps: u64,
    /// `true` if all tensors of all steps were checked for NaN and infinity.
    pub is_watched: bool,
    /// First tensor that was not finite, if any.
    pub first_not_finite: Option<RecordedTensor>,
    /// First op in the following step with finite inputs and an output that is not finite. Recorded
    /// if `first_not_finite` is not an op's output.
    #[serde(default)]
    pub first_op_not_finite: Option<Box<RecordedTensor>>,
    /// Number of tensors that were not finite. Outputs of ops count only if the inputs were finite.
    pub not_finite: u64,
    /// Result of a second run of that step's batch, if the trainer repeated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerun: Option<Box<Rerun>>,
    /// One row for each place, in order of first occurrence.
    pub tensors: Vec<TensorRow>,
    /// Conditions that can lead to NaN or prevent a network from learning, most serious first.
    pub troubles: Vec<Trouble>,
    /// Number of tensors that were left out of the record because a step exceeded its limit.
    pub dropped: u64,
    /// Paths of the record and of the first tensor that was not finite, if they were written.
    pub files: Vec<String>,
    /// Findings about invalid numbers. Filled in when the report is delivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
}
}

/// Result of repeating a step's batch from the same parameters, with all of its numbers recorded.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Rerun {
    /// Number of the step, from 0.
    pub step: u64,
    /// Number of recorded tensors.
    pub tensors: u64,
    /// First tensor that was not finite. `None` if all were finite, because random parts such as
    /// dropout differed.
    pub first_not_finite: Option<RecordedTensor>,
    /// Reason if the repeated run ended early.
    pub failure: Option<String>,
}

report_value! {
/// Statistics of all tensors of one place, over all recorded steps.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct TensorRow from TensorRowParts {
    /// Role of the tensors.
    pub role: TensorRole,
    /// The module that returned them, the op in its module, or the parameter.
    pub name: String,
    /// Element type of the last tensor.
    pub element_type: String,
    /// Shape of the last tensor.
    pub shape: Vec<u64>,
    /// Number of tensors.
    pub tensors: u64,
    /// Statistics of the first tensor.
    pub first: TensorStatistics,
    /// Statistics of the last tensor.
    pub last: TensorStatistics,
    /// Statistics of all tensors together.
    pub all: TensorStatistics,
}
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
