//! Callbacks that most trainings need.

mod early_stopping;
mod learning_rate_monitor;
mod model_checkpoint;

pub use early_stopping::EarlyStopping;
pub use learning_rate_monitor::LearningRateMonitor;
pub use model_checkpoint::ModelCheckpoint;

use super::error::Result;
use super::state::TrainerState;

/// Returns the value of the monitored metric, or an error that lists the logged metrics.
fn monitored(trainer: &TrainerState, monitor: &str) -> Result<f64> {
    trainer.metric(monitor).ok_or_else(|| {
        let known: Vec<String> = trainer.metrics().into_keys().collect();
        format!(
            "cannot find the metric {monitor:?}: log it with trainer.log({monitor:?}, …), or \
             monitor one of the logged metrics: {}",
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        )
        .into()
    })
}
