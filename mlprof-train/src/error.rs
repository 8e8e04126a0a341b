//! Errors of a run.

use std::path::PathBuf;

use mlprof_core::Stage;

/// Any error of the user's code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Result of the user's methods: `?` passes on any error.
pub type Result<T, E = BoxError> = std::result::Result<T, E>;

/// Error that ended a stage early. The report has been delivered when this is returned.
///
/// `Display` omits the cause, which is the error's [`source`](std::error::Error::source). `Debug`
/// prints both in one line. This is the output of a `main` that returns the error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting is invalid, or contradicts another one. Nothing was run.
    #[error("{0}")]
    Setting(String),
    /// The profiler cannot be chosen. The stage did not run.
    #[error("cannot choose the profiler")]
    Profiler {
        /// Reason, such as an unknown name.
        source: mlprof_core::Error,
    },
    /// A method of the module failed.
    #[error("{hook} failed {position}")]
    Module {
        /// Name of the method.
        hook: &'static str,
        /// Position in the run.
        position: Position,
        /// The error that it returned.
        source: BoxError,
    },
    /// A callback failed.
    #[error("callback {callback}: {hook} failed {position}")]
    Callback {
        /// Name of the callback.
        callback: String,
        /// Name of the method.
        hook: &'static str,
        /// Position in the run.
        position: Position,
        /// The error that it returned.
        source: BoxError,
    },
    /// A loader failed, or yielded fewer batches than its size hint.
    #[error("the {loader} loader failed {position}")]
    Loader {
        /// `training`, `validation`, `test` or `predict`.
        loader: &'static str,
        /// Position in the run.
        position: Position,
        /// The error that it returned.
        source: BoxError,
    },
    /// A loader yielded no batch.
    #[error("the {loader} loader yielded no batch: its data is empty, or smaller than one batch")]
    NoBatches {
        /// `training`, `validation`, `test` or `predict`.
        loader: &'static str,
    },
    /// The loss is not a number, or infinite. Further training would be lost.
    #[error(
        "the loss is {loss} {position}: training was stopped. Lower the learning rate, clip \
         gradients (gradient_clip_val), check this batch, or continue with \
         stop_on_invalid_loss(false)"
    )]
    InvalidLoss {
        /// Value of the loss.
        loss: f64,
        /// Position in the run.
        position: Position,
    },
    /// The profiler stopped the training, as its settings demand.
    #[error("the profiler stopped the training {position}: {reason}")]
    Stopped {
        /// The profiler's reason.
        reason: String,
        /// Position in the run.
        position: Position,
    },
    /// Training cannot go on from a checkpoint. The module has not changed.
    #[error("cannot resume from {path}", path = .path.display())]
    Resume {
        /// The checkpoint file.
        path: PathBuf,
        /// The cause.
        source: BoxError,
    },
    /// A checkpoint could not be written. Earlier ones are complete.
    #[error("cannot write a checkpoint to {path}", path = .path.display())]
    Checkpoint {
        /// The checkpoint file.
        path: PathBuf,
        /// The cause.
        source: BoxError,
    },
}

mlprof_core::debug_as_display!(TrainError);

/// Position of an event in a run, as messages print it. All numbers count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Stage, or the sanity check inside a fit.
    pub stage: Stage,
    /// Epoch.
    pub epoch: usize,
    /// Batch of the epoch; `None` outside of batches.
    pub batch: Option<usize>,
}

impl std::fmt::Display for Position {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.stage, self.batch) {
            (Stage::Fit, None) => write!(formatter, "in epoch {}", self.epoch),
            (Stage::Fit, Some(batch)) => {
                write!(formatter, "at batch {batch} of epoch {}", self.epoch)
            }
            (stage, None) => write!(formatter, "in {stage}"),
            (stage, Some(batch)) => write!(formatter, "at batch {batch} of {stage}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Covers a `main` that returns `Result<(), Box<dyn Error>>`.
    #[test]
    fn an_error_that_main_returns_says_what_to_do() {
        let position = Position { stage: Stage::Fit, epoch: 0, batch: Some(38) };
        let error = TrainError::InvalidLoss { loss: f64::NAN, position };
        let message = error.to_string();
        assert!(message.contains("Lower the learning rate"), "{message}");
        let returned: BoxError = error.into();
        assert_eq!(format!("{returned:?}"), message);
    }

    /// Covers programs that print an error and walk its sources.
    #[test]
    fn no_text_is_printed_twice_in_a_chain() {
        let position = Position { stage: Stage::Fit, epoch: 0, batch: Some(4) };
        let source = || -> BoxError { "the tensor has the wrong shape".into() };
        let path = PathBuf::from("a");
        let unknown = || mlprof_core::Error::UnknownProfiler { name: "x".into(), text: "x".into() };
        let errors = [
            TrainError::Profiler { source: unknown() },
            TrainError::Module { hook: "training_step", position, source: source() },
            TrainError::Callback {
                callback: "C".into(),
                hook: "setup",
                position,
                source: source(),
            },
            TrainError::Loader { loader: "training", position, source: source() },
            TrainError::Resume { path: path.clone(), source: source() },
            TrainError::Checkpoint { path, source: source() },
        ];
        for error in errors {
            let cause = std::error::Error::source(&error).expect("a cause").to_string();
            assert!(!error.to_string().contains(&cause), "{error}");
            assert_eq!(format!("{error:?}"), format!("{error}: {cause}"));
        }
    }
}
