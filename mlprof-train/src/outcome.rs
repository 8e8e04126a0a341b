//! Outcomes of stages.

use std::collections::BTreeMap;

/// Reason for the end of a fit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// All epochs are done.
    MaxEpochs,
    /// All steps are done.
    MaxSteps,
    /// The time limit of [`max_time`](super::Trainer::max_time) has passed.
    MaxTime,
    /// [`TrainerState::stop`](super::TrainerState::stop) was called, with this reason.
    Requested(String),
    /// Ctrl-C or a termination signal arrived, with
    /// [`Interrupt::Return`](mlprof_core::Interrupt::Return).
    Interrupted,
    /// `limit_train_batches` is 0.
    Skipped,
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MaxEpochs => formatter.write_str("all epochs are done"),
            Self::MaxSteps => formatter.write_str("all steps are done"),
            Self::MaxTime => formatter.write_str("the time limit was reached"),
            Self::Requested(reason) => write!(formatter, "stopped: {reason}"),
            Self::Interrupted => {
                formatter.write_str("interrupted by Ctrl-C or a termination signal")
            }
            Self::Skipped => formatter.write_str("limit_train_batches is 0"),
        }
    }
}

/// Outcome of a fit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FitOutcome {
    /// Number of completed epochs, including those before a resumed checkpoint.
    pub epochs: usize,
    /// Number of optimizer steps, including those before a resumed checkpoint.
    pub steps: usize,
    /// Reason for the end.
    pub stopped: StopReason,
    /// Training loss that was read last.
    pub loss: Option<f64>,
    /// Last values of the [logged](super::TrainerState::log) metrics, by name.
    pub metrics: BTreeMap<String, f64>,
}

/// Outcome of a validation, test or prediction run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EvaluationOutcome {
    /// Number of batches that were run.
    pub batches: usize,
    /// `true` if an interrupt ended the run early. This requires
    /// [`Interrupt::Return`](mlprof_core::Interrupt::Return).
    pub is_interrupted: bool,
    /// Values of the [logged](super::TrainerState::log) metrics, by name.
    pub metrics: BTreeMap<String, f64>,
}
