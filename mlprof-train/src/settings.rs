//! The settings of a trainer.

use std::path::PathBuf;
use std::time::Duration;

use super::optimizer::GradientClipAlgorithm;
use super::portion::Portion;
use mlprof_core::Interrupt;

/// Number of epochs if neither epochs, steps nor time are limited, as in Lightning.
const DEFAULT_MAX_EPOCHS: usize = 1000;

/// The settings of a [`Trainer`].
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) max_epochs: Option<usize>,
    pub(super) min_epochs: Option<usize>,
    pub(super) max_steps: Option<usize>,
    pub(super) min_steps: usize,
    pub(super) max_time: Option<Duration>,
    pub(super) limit_train_batches: Portion,
    pub(super) limit_val_batches: Portion,
    pub(super) limit_test_batches: Portion,
    pub(super) limit_predict_batches: Portion,
    pub(super) overfit_batches: Option<Portion>,
    /// Number of batches of each loader in a trial run.
    pub(super) fast_dev_run: Option<usize>,
    pub(super) val_check_interval: Portion,
    /// `None` if the validation interval counts the batches of all epochs together.
    pub(super) check_val_every_n_epoch: Option<usize>,
    /// `None` if the sanity check runs all batches.
    pub(super) num_sanity_val_steps: Option<usize>,
    pub(super) accumulate_grad_batches: usize,
    pub(super) gradient_clip_val: Option<f64>,
    pub(super) gradient_clip_algorithm: GradientClipAlgorithm,
    pub(super) log_every_n_steps: usize,
    pub(super) stop_on_invalid_loss: bool,
    pub(super) checkpoint_dir: Option<PathBuf>,
    pub(super) seed: Option<u64>,
    pub(super) shows_progress: bool,
    pub(super) interrupt: Interrupt,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_epochs: None,
            min_epochs: None,
            max_steps: None,
            min_steps: 0,
            max_time: None,
            limit_train_batches: Portion::ALL,
            limit_val_batches: Portion::ALL,
            limit_test_batches: Portion::ALL,
            limit_predict_batches: Portion::ALL,
            overfit_batches: None,
            fast_dev_run: None,
            val_check_interval: Portion::Share(1.0),
            check_val_every_n_epoch: Some(1),
            num_sanity_val_steps: Some(2),
            accumulate_grad_batches: 1,
            gradient_clip_val: None,
            gradient_clip_algorithm: GradientClipAlgorithm::Norm,
            log_every_n_steps: 50,
            stop_on_invalid_loss: true,
            checkpoint_dir: None,
            seed: None,
            shows_progress: true,
            interrupt: Interrupt::Terminate,
        }
    }
}

impl Settings {
    /// Returns the settings of a stage, in which settings that imply others are resolved.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings are invalid.
    pub(super) fn resolved(&self) -> Result<Self, String> {
        let mut settings = self.clone();
        if let Some(batches) = self.fast_dev_run {
            settings.try_batches(batches);
        }
        if let Some(limit) = self.overfit_batches {
            limit.check_limit("overfit_batches")?;
            settings.limit_train_batches = limit;
            settings.limit_val_batches = limit;
        }
        if settings.max_epochs.is_none()
            && settings.max_steps.is_none()
            && settings.max_time.is_none()
        {
            settings.max_epochs = Some(DEFAULT_MAX_EPOCHS);
        }
        if settings.min_steps > 0 {
            settings.min_epochs.get_or_insert(1);
        }
        settings.check()?;
        Ok(settings)
    }

    /// Limits the run to one epoch of a few batches, without sanity check and checkpoints.
    fn try_batches(&mut self, batches: usize) {
        let limit = Portion::Batches(batches);
        self.limit_train_batches = limit;
        self.limit_val_batches = limit;
        self.limit_test_batches = limit;
        self.limit_predict_batches = limit;
        self.max_epochs = Some(1);
        self.max_steps = Some(batches);
        self.val_check_interval = Portion::Share(1.0);
        self.check_val_every_n_epoch = Some(1);
        self.num_sanity_val_steps = Some(0);
        self.checkpoint_dir = None;
    }

    /// Returns the number of batches between validations in an epoch of `total` batches. `None`
    /// means a validation at the end of the epoch.
    pub(super) fn val_check_interval(&self, total: Option<usize>) -> Result<Option<usize>, String> {
        match (self.val_check_interval, self.check_val_every_n_epoch) {
            (Portion::Batches(batches), None) => Ok(Some(batches)),
            (interval, _) => interval.interval_of(total, "val_check_interval"),
        }
    }

    /// Rejects invalid settings before the stage runs.
    fn check(&self) -> Result<(), String> {
        self.limit_train_batches.check_limit("limit_train_batches")?;
        self.limit_val_batches.check_limit("limit_val_batches")?;
        self.limit_test_batches.check_limit("limit_test_batches")?;
        self.limit_predict_batches.check_limit("limit_predict_batches")?;
        self.val_check_interval.check_interval("val_check_interval")?;
        if self.fast_dev_run == Some(0) {
            return Err("fast_dev_run(0) is not a number of batches: use 1 or more".into());
        }
        if self.check_val_every_n_epoch == Some(0) {
            return Err(
                "check_val_every_n_epoch(0) is not a number of epochs: use 1 or more".into()
            );
        }
        if self.check_val_every_n_epoch.is_none()
            && !matches!(self.val_check_interval, Portion::Batches(_))
        {
            return Err(
                "check_val_every_n_epoch(None) needs val_check_interval as a number of batches"
                    .into(),
            );
        }
        if self.accumulate_grad_batches == 0 {
            return Err(
                "accumulate_grad_batches(0) is not a number of batches: use 1 or more".into()
            );
        }
        if self.log_every_n_steps == 0 {
            return Err("log_every_n_steps(0) is not a number of steps: use 1 or more".into());
        }
        match self.gradient_clip_val {
            Some(norm) if !(norm > 0.0 && norm.is_finite()) => {
                Err(format!("gradient_clip_val({norm:?}) is not a norm: use a number above 0"))
            }
            _ => Ok(()),
        }
    }
}
