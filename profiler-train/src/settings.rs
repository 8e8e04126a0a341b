//! What a trainer was told.

use std::path::PathBuf;

use super::limit::{Interval, Limit};
use profiler_core::Interrupt;

/// How many epochs are run if neither epochs nor steps are limited, as in Lightning.
const DEFAULT_MAX_EPOCHS: usize = 1000;

/// What a [`Trainer`] was told.
pub(super) struct Settings {
    pub(super) max_epochs: Option<usize>,
    pub(super) max_steps: Option<usize>,
    pub(super) limit_train_batches: Limit,
    pub(super) limit_val_batches: Limit,
    pub(super) limit_test_batches: Limit,
    pub(super) limit_predict_batches: Limit,
    pub(super) val_check_interval: Interval,
    pub(super) num_sanity_val_steps: usize,
    pub(super) accumulate_grad_batches: usize,
    pub(super) gradient_clip_val: Option<f64>,
    pub(super) log_every_n_steps: usize,
    pub(super) stop_on_invalid_loss: bool,
    pub(super) checkpoint_dir: Option<PathBuf>,
    pub(super) seed: Option<u64>,
    pub(super) shows_progress: bool,
    pub(super) interrupt: Interrupt,
}

impl Settings {
    /// Refuses what makes no sense, before anything runs.
    pub(super) fn check(&mut self) -> Result<(), String> {
        if self.max_epochs.is_none() && self.max_steps.is_none() {
            self.max_epochs = Some(DEFAULT_MAX_EPOCHS);
        }
        self.limit_train_batches.check("limit_train_batches")?;
        self.limit_val_batches.check("limit_val_batches")?;
        self.limit_test_batches.check("limit_test_batches")?;
        self.limit_predict_batches.check("limit_predict_batches")?;
        self.val_check_interval.check("val_check_interval")?;
        if self.accumulate_grad_batches == 0 {
            return Err("accumulate_grad_batches(0) is no number of batches: use 1 or more".into());
        }
        if self.log_every_n_steps == 0 {
            return Err("log_every_n_steps(0) is no number of steps: use 1 or more".into());
        }
        match self.gradient_clip_val {
            Some(norm) if !(norm > 0.0 && norm.is_finite()) => {
                Err(format!("gradient_clip_val({norm:?}) is no norm: use a number above 0"))
            }
            _ => Ok(()),
        }
    }
}
