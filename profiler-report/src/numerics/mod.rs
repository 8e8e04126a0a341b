//! What the numerics profiler found: the numbers in what modules return, in losses, gradients and parameters.

mod paint;
mod record;
mod statistics;
mod trouble;

use profiler_events::TensorRole;
use serde::{Deserialize, Serialize};

pub(crate) use self::paint::number as shown_number;
pub use self::paint::paint;
pub use self::record::{RECORD_VERSION, RecordHeader, RecordedTensor};
pub use self::statistics::{
    SAMPLE, StatisticsReader, TensorStatistics, finite_or_none, sample_every,
};
pub use self::trouble::{Trouble, TroubleKind, troubles};
use super::ReportHeader;

/// The numbers of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NumericsReport {
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
    /// How many tensors were not finite.
    pub not_finite: u64,
    /// One row for each place, in the order in which they were first seen.
    pub tensors: Vec<TensorRow>,
    /// What comes before a NaN or keeps a network from learning, the worst first.
    pub troubles: Vec<Trouble>,
    /// How many tensors were left out of the record, because a step had more than it keeps.
    pub dropped: u64,
    /// The record, where it was written.
    pub files: Vec<String>,
}

/// All tensors of one place, over all recorded steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorRow {
    /// What they are for.
    pub role: TensorRole,
    /// The module that returned them, or the parameter.
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

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
