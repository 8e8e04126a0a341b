//! Callbacks that most trainings need.

mod early_stopping;
mod learning_rate_monitor;
mod model_checkpoint;

pub use early_stopping::EarlyStopping;
pub use learning_rate_monitor::LearningRateMonitor;
pub use model_checkpoint::ModelCheckpoint;

use super::error::Result;
use super::state::TrainerState;

/// Direction in which a monitored metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Lower values are better, as for a loss.
    Min,
    /// Higher values are better, as for an accuracy.
    Max,
}

impl Mode {
    pub(crate) fn is_better(self, value: f64, than: f64) -> bool {
        match self {
            Self::Min => value < than,
            Self::Max => value > than,
        }
    }

    /// Returns a value that is worse than every finite one.
    pub(crate) const fn worst(self) -> f64 {
        match self {
            Self::Min => f64::INFINITY,
            Self::Max => f64::NEG_INFINITY,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// Returns the value of the monitored metric, or an error that lists the logged metrics.
fn monitored(trainer: &TrainerState, monitor: &str) -> Result<f64> {
    trainer.metric(monitor).ok_or_else(|| {
        let known: Vec<String> = trainer.metrics().into_keys().collect();
        format!(
            "cannot find the metric {monitor:?}: log it by trainer.log({monitor:?}, …), or monitor one \
             of those that were logged: {}",
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )
        .into()
    })
}
