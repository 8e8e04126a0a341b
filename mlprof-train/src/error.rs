//! What can go wrong in a run.

use std::path::PathBuf;

use mlprof_core::Stage;

/// Any error of the user's code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What the user's methods return: any error can be passed on with `?`.
pub type Result<T, E = BoxError> = std::result::Result<T, E>;

/// Why a stage ended early. The report has been delivered when this is returned.
///
/// `Display` leaves out the cause, which is the error's [`source`](std::error::Error::source).
/// `Debug` prints both in one line, as a `main` does that returns the error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting, or two together, make no sense. Nothing was run.
    #[error("{0}")]
    Setting(String),
    /// The profiler cannot be chosen. Nothing was run.
    #[error("cannot choose the profiler")]
    Profiler {
        /// The reason, such as an unknown name.
        source: mlprof_core::Error,
    },
    /// A method of the module failed.
    #[error("{hook} failed{place}")]
    Module {
        /// The method.
        hook: &'static str,
        /// Where in the run.
        place: Place,
        /// What it returned.
        source: BoxError,
    },
    /// A callback failed.
    #[error("callback {callback}: {hook} failed{place}")]
    Callback {
        /// Its name.
        callback: String,
        /// The method.
        hook: &'static str,
        /// Where in the run.
        place: Place,
        /// What it returned.
        source: BoxError,
    },
    /// A loader failed, or gave fewer batches than it had promised.
    #[error("the {loader} loader failed{place}")]
    Loader {
        /// `training`, `validation`, `test` or `predict`.
        loader: &'static str,
        /// Where in the run.
        place: Place,
        /// What it returned.
        source: BoxError,
    },
    /// A loader gave nothing.
    #[error("the {loader} loader gave no batch: its data is empty, or smaller than one batch")]
    NoBatches {
        /// `training`, `validation`, `test` or `predict`.
        loader: &'static str,
    },
    /// The loss is not a number, or infinite: whatever would follow is lost.
    #[error(
        "the loss is {loss}{place}: training was stopped. Lower the learning rate, clip gradients \
         (gradient_clip_val), look at this batch, or let it go on with stop_on_invalid_loss(false)"
    )]
    InvalidLoss {
        /// The loss.
        loss: f64,
        /// Where in the run.
        place: Place,
    },
    /// The profiler was asked to stop the training when it sees what it saw.
    #[error("the profiler stopped the training{place}: {reason}")]
    Stopped {
        /// What it saw.
        reason: String,
        /// Where in the run.
        place: Place,
    },
    /// Training cannot go on from a checkpoint. The module is what it was.
    #[error("cannot resume from {path}", path = .path.display())]
    Resume {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: BoxError,
    },
    /// A checkpoint could not be written. Those written before are whole.
    #[error("cannot write a checkpoint to {path}", path = .path.display())]
    Checkpoint {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: BoxError,
    },
}

mlprof_core::debug_as_display!(TrainError);

/// Where in a run something happened, as it is put into messages. All counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The stage, or the sanity check inside fit.
    pub stage: Stage,
    /// The epoch.
    pub epoch: usize,
    /// The batch of the epoch; `None` outside of batches.
    pub batch: Option<usize>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.stage, self.batch) {
            (Stage::Fit, None) => write!(formatter, " in epoch {}", self.epoch),
            (Stage::Fit, Some(batch)) => {
                write!(formatter, " at batch {batch} of epoch {}", self.epoch)
            }
            (stage, None) => write!(formatter, " in {stage}"),
            (stage, Some(batch)) => write!(formatter, " at batch {batch} of {stage}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in a `main` that returns `Result<(), Box<dyn Error>>`.
    #[test]
    fn an_error_that_main_returns_says_what_to_do() {
        let place = Place { stage: Stage::Fit, epoch: 0, batch: Some(38) };
        let error = TrainError::InvalidLoss { loss: f64::NAN, place };
        let message = error.to_string();
        assert!(message.contains("Lower the learning rate"), "{message}");
        let returned: BoxError = error.into();
        assert_eq!(format!("{returned:?}"), message);
    }

    /// As programs print it that walk the sources.
    #[test]
    fn no_text_is_printed_twice_in_a_chain() {
        let place = Place { stage: Stage::Fit, epoch: 0, batch: Some(4) };
        let source = || -> BoxError { "the tensor has the wrong shape".into() };
        let path = PathBuf::from("a");
        let unknown = || mlprof_core::Error::UnknownProfiler { name: "x".into(), text: "x".into() };
        let errors = [
            TrainError::Profiler { source: unknown() },
            TrainError::Module { hook: "training_step", place, source: source() },
            TrainError::Callback { callback: "C".into(), hook: "setup", place, source: source() },
            TrainError::Loader { loader: "training", place, source: source() },
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
