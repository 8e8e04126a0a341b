//! State of a running trainer, as modules and callbacks see it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::checkpoint_requests::{Request, Requests, free_path};
use super::error::Place;
use super::metrics::{LogOptions, Metrics};
use super::optimizer::GradientClipAlgorithm;
use super::outcome::StopReason;
use super::resume_point::ResumePoint;
use mlprof_core::{Profiler, RunContext, Stage};

/// Position and results of a run. The trainer passes it to every hook.
pub struct TrainerState {
    pub(super) profiler: Arc<dyn Profiler>,
    pub(super) run: RunContext,
    pub(super) seed: Option<u64>,
    pub(super) max_epochs: Option<usize>,
    pub(super) stage: Stage,
    pub(super) epoch: usize,
    pub(super) global_step: usize,
    pub(super) batch_index: Option<usize>,
    pub(super) num_batches: Option<usize>,
    pub(super) loss: Option<f64>,
    pub(super) learning_rate: Option<f64>,
    /// Number of training epochs that have ended. `batches_run` is the number of training batches
    /// of all epochs.
    pub(super) epochs_run: usize,
    pub(super) batches_run: usize,
    /// `true` if every epoch has the batches of the first one.
    pub(super) overfits: bool,
    pub(super) gradient_clip_algorithm: GradientClipAlgorithm,
    /// Reason for which the module or a callback wants the fit to end.
    pub(super) stop_request: OnceLock<String>,
    /// Reason for which the stage ends; `None` while it continues.
    pub(super) stop: Option<StopReason>,
    metrics: Mutex<Metrics>,
    pub(super) requests: Requests,
    /// `true` during a fit, including its validations.
    pub(super) is_fit: bool,
    pub(super) validates_once_per_epoch: bool,
    /// Set when a hook calls [`skip_epoch`](Self::skip_epoch); cleared when the loop skips the
    /// epoch.
    pub(super) skips_epoch: bool,
    /// Point at which a training would resume from a checkpoint that is saved now.
    pub(super) resume_point: ResumePoint,
}
mlprof_core::debug_as_name!([] TrainerState);

impl TrainerState {
    pub(super) fn new(
        profiler: Arc<dyn Profiler>,
        run: RunContext,
        seed: Option<u64>,
        max_epochs: Option<usize>,
        stage: Stage,
    ) -> Self {
        Self {
            profiler,
            run,
            seed,
            max_epochs,
            stage,
            epoch: 0,
            global_step: 0,
            batch_index: None,
            num_batches: None,
            loss: None,
            learning_rate: None,
            epochs_run: 0,
            batches_run: 0,
            overfits: false,
            gradient_clip_algorithm: GradientClipAlgorithm::Norm,
            stop_request: OnceLock::new(),
            stop: None,
            metrics: Mutex::default(),
            requests: Requests::default(),
            is_fit: stage == Stage::Fit,
            validates_once_per_epoch: false,
            skips_epoch: false,
            resume_point: ResumePoint::default(),
        }
    }

    /// Returns the trainer's profiler, for scopes inside a model.
    pub fn profiler(&self) -> &Arc<dyn Profiler> {
        &self.profiler
    }

    /// Returns the running stage. Validation inside a fit is [`Stage::Validate`], and the sanity
    /// check is [`Stage::SanityCheck`].
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns `true` during a fit, including its validations.
    pub fn is_fit(&self) -> bool {
        self.is_fit
    }

    /// Returns `true` if the trainer validates once, at the end of each training epoch. This is the
    /// default.
    pub fn validates_once_per_epoch(&self) -> bool {
        self.validates_once_per_epoch
    }

    /// Returns the epoch, counted from 0.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// Returns the maximum number of epochs, if there is a limit.
    pub fn max_epochs(&self) -> Option<usize> {
        self.max_epochs
    }

    /// Returns the number of completed optimizer steps.
    pub fn global_step(&self) -> usize {
        self.global_step
    }

    /// Returns the index of the batch in the running pass over the data, counted from 0. Outside of
    /// batches, it is `None`.
    pub fn batch_index(&self) -> Option<usize> {
        self.batch_index
    }

    /// Returns the number of batches in the running pass over the data, if the loader knows it.
    pub fn num_batches(&self) -> Option<usize> {
        self.num_batches
    }

    /// Returns the training loss that was read last. On an accelerator, the loss is read only
    /// [every few steps](super::Trainer::log_every_n_steps).
    pub fn loss(&self) -> Option<f64> {
        self.loss
    }

    /// Returns the learning rate of the optimizer; `None` outside of training.
    pub fn learning_rate(&self) -> Option<f64> {
        self.learning_rate
    }

    /// Returns the algorithm with which the trainer clips gradients.
    pub fn gradient_clip_algorithm(&self) -> GradientClipAlgorithm {
        self.gradient_clip_algorithm
    }

    /// Returns the trainer's seed.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Returns the rank and the world size.
    pub fn run(&self) -> &RunContext {
        &self.run
    }

    /// Requests the end of the fit after the running batch. If no batch has run yet, none will run.
    /// Only the first reason is kept.
    ///
    /// As in Lightning, a validation follows. The fit continues until it has reached its
    /// [`min_epochs`](super::Trainer::min_epochs) and [`min_steps`](super::Trainer::min_steps).
    pub fn stop(&self, reason: impl Into<String>) {
        self.stop_request.get_or_init(|| reason.into());
    }

    /// Adds `value` to the mean of the running pass over the data. The mean is available when the
    /// batches of the pass are done: through [`metric`](Self::metric), in the progress bar and in
    /// the outcome.
    ///
    /// Every hook and step may log. Some values are available at once:
    ///
    /// - values logged by the last hooks of a pass, such as `on_validation_epoch_end` and
    ///   `on_validation_end`, which belong to that pass;
    /// - values logged outside of any pass, such as in `on_fit_start`.
    ///
    /// Values logged in a sanity check are discarded.
    ///
    /// # Examples
    ///
    /// ```
    /// use mlprof_core::ProfilerExt;
    /// use mlprof_train::TrainerState;
    ///
    /// fn step(trainer: &mut TrainerState) {
    ///     let _scope = trainer.profiler().profile("forward");
    ///     trainer.log("loss", 0.5);
    /// }
    /// ```
    pub fn log(&self, name: &str, value: f64) {
        self.log_with(name, value, &LogOptions::new());
    }

    /// Logs a value like [`log`](Self::log), for means over batches of different sizes. `weight` is
    /// the batch's size.
    pub fn log_weighted(&self, name: &str, value: f64, weight: f64) {
        self.log_with(name, value, &LogOptions::new().weight(weight));
    }

    /// Logs a value like [`log`](Self::log), with options such as another reduction than the mean.
    pub fn log_with(&self, name: &str, value: f64, options: &LogOptions) {
        self.metrics_of_passes().add(name, value, options);
    }

    /// Returns the value of the last finished pass under `name`, or the value that was logged last
    /// with [`on_step`](LogOptions::on_step).
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics_of_passes().get(name)
    }

    /// Returns all available values by name.
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        self.metrics_of_passes().all().clone()
    }

    /// Locks the logged values. Because of the lock, logging needs only a shared borrow of the
    /// state, and scopes of its profiler can stay open.
    pub(super) fn metrics_of_passes(&self) -> MutexGuard<'_, Metrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a metric that is available at once.
    pub(super) fn set_metric(&self, name: &str, value: f64) {
        self.metrics_of_passes().set(name, value);
    }

    pub(super) fn place(&self) -> Place {
        Place { stage: self.stage, epoch: self.epoch, batch: self.batch_index }
    }
}

/// Checkpoints that hooks request.
impl TrainerState {
    /// Returns the trainer's directory for checkpoints, if it has one.
    pub fn checkpoint_dir(&self) -> Option<&Path> {
        self.requests.directory.as_deref()
    }

    /// Requests a checkpoint at `{directory}/{stem}.{extension}` and returns that path. The trainer
    /// saves it when all callbacks and the module have run the current hook. An existing file
    /// stays; the new checkpoint is then named `{stem}-v1`, `-v2` and so on.
    ///
    /// Checkpoints are saved only inside a fit and on rank 0. Otherwise, the request has no effect.
    pub fn save_checkpoint(&mut self, directory: &Path, stem: &str) -> PathBuf {
        let queue = &self.requests.queue;
        let is_taken = |path: &Path| {
            path.symlink_metadata().is_ok()
                || queue.iter().any(|it| matches!(it, Request::Save(queued) if queued == path))
        };
        let path = free_path(directory, stem, self.requests.extension, is_taken);
        self.requests.queue.push(Request::Save(path.clone()));
        path
    }

    /// Requests a checkpoint at `path` that replaces an earlier one. The trainer saves it when all
    /// callbacks and the module have run the current hook.
    pub fn replace_checkpoint(&mut self, path: &Path) {
        self.requests.queue.push(Request::Save(path.to_owned()));
    }

    /// Requests the removal of a checkpoint file. The trainer first saves the checkpoints that were
    /// requested before. A missing file is not an error.
    pub fn remove_checkpoint(&mut self, path: &Path) {
        self.requests.queue.push(Request::Remove(path.to_owned()));
    }
}
