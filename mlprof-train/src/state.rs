//! The state of a running trainer, as hooks receive it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::checkpoint_requests::{Request, Requests, free_path};
use super::error::Position;
use super::metrics::{LogOptions, Metrics};
use super::outcome::StopReason;
use super::resume_point::ResumePoint;
use mlprof_core::{Profiler, RunContext, Stage};

/// Position and metrics of a run, passed to every hook.
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
    /// Reason for which the module or a callback ends the fit.
    pub(super) stop_request: OnceLock<String>,
    /// Reason for the end of the stage.
    pub(super) stop: Option<StopReason>,
    metrics: Mutex<Metrics>,
    pub(super) requests: Requests,
    /// `true` during a fit, including its validations.
    pub(super) is_fit: bool,
    /// `true` if the trainer validates once, at the end of each training epoch.
    pub(super) validates_once_per_epoch: bool,
    /// Requested by a hook, and not done yet.
    pub(super) skips_epoch: bool,
    /// Position at which training resumes from a checkpoint of this moment.
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

    /// Returns the running stage: validation inside a fit is [`Stage::Validate`], its sanity check
    /// [`Stage::SanityCheck`].
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns whether a fit runs, also while it validates.
    pub fn is_fit(&self) -> bool {
        self.is_fit
    }

    /// Returns the epoch, from 0.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// Returns the largest number of epochs, if it is set.
    pub fn max_epochs(&self) -> Option<usize> {
        self.max_epochs
    }

    /// Returns the number of optimizer steps that are done.
    pub fn global_step(&self) -> usize {
        self.global_step
    }

    /// Returns the index of the batch in the running pass over the data, from 0; `None` outside of
    /// batches.
    pub fn batch_index(&self) -> Option<usize> {
        self.batch_index
    }

    /// Returns the number of batches of the running pass over the data, if its loader knows it.
    pub fn num_batches(&self) -> Option<usize> {
        self.num_batches
    }

    /// Returns the training loss that was read last. On an accelerator it is read only
    /// [now and then](super::Trainer::log_every_n_steps).
    pub fn loss(&self) -> Option<f64> {
        self.loss
    }

    /// Returns the learning rate of the optimizer; `None` outside of training.
    pub fn learning_rate(&self) -> Option<f64> {
        self.learning_rate
    }

    /// Returns the trainer's seed.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Returns rank and world size.
    pub fn run(&self) -> &RunContext {
        &self.run
    }

    /// Requests the end of the fit after the running batch; before the first one, no batch is run.
    /// The first reason counts. As with Lightning, a validation follows, and the fit goes on where
    /// it has not reached its [`min_epochs`](super::Trainer::min_epochs) and
    /// [`min_steps`](super::Trainer::min_steps).
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

    /// Logs a value like [`log`](Self::log), with options: another reduction than the mean, or a
    /// weight for means over batches of different sizes.
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

    pub(super) fn position(&self) -> Position {
        Position { stage: self.stage, epoch: self.epoch, batch: self.batch_index }
    }
}

/// Checkpoints that hooks request.
impl TrainerState {
    /// Returns the trainer's directory for checkpoints.
    pub fn checkpoint_dir(&self) -> Option<&Path> {
        self.requests.directory.as_deref()
    }

    /// Makes the trainer save a checkpoint as `{directory}/{stem}.{extension}` when the hooks of
    /// this moment have run, and returns that path. A file that is there already stays: the new one
    /// is then `{stem}-v1`, `-v2` and so on.
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

    /// Makes the trainer save a checkpoint at `path`, in place of an earlier one, when the hooks of
    /// this moment have run.
    pub fn replace_checkpoint(&mut self, path: &Path) {
        self.requests.queue.push(Request::Save(path.to_owned()));
    }

    /// Makes the trainer remove a checkpoint file, after it has saved those that were requested
    /// before. A file that is gone is not an error.
    pub fn remove_checkpoint(&mut self, path: &Path) {
        self.requests.queue.push(Request::Remove(path.to_owned()));
    }
}
