//! The fit: sanity check, epochs, validation when it is due, checkpoints.

use std::path::Path;

use super::error::{Result, TrainError};
use super::fetch::Batches;
use super::loader::{DataLoader, EpochContext};
use super::module::TrainModule;
use super::optimizer::LrInterval;
use super::outcome::{FitOutcome, StopReason};
use super::run::Run;
use super::state::TrainerState;
use super::step::BatchEnd;
use mlprof_core::output::{say, write_whole_at};
use mlprof_core::{ProfilerExt, Stage, progress};
use mlprof_events::files::replace;

/// Data of a fit.
pub(super) struct FitData<'data, Batch> {
    pub(super) train: &'data dyn DataLoader<Batch>,
    pub(super) validation: Option<&'data dyn DataLoader<Batch>>,
    /// Checkpoint to resume from.
    pub(super) ckpt_path: Option<&'data Path>,
}

impl<M: TrainModule> Run<'_, M> {
    /// Runs the whole fit, from its first hook to its last.
    pub(super) fn fit(&mut self, data: &FitData<'_, M::Batch>) -> Result<FitOutcome, TrainError> {
        let resumed = data.ckpt_path.map(|path| self.read_checkpoint(path)).transpose()?;
        self.begin()?;
        let mut epochs = 0;
        if self.settings.limit_train_batches.is_zero() {
            self.state.stop = Some(StopReason::Skipped);
            say("mlprof: limit_train_batches is 0: training is skipped");
        } else {
            self.configure_optimizers()?;
            self.check_checkpoints()?;
            let is_resumed = resumed.is_some();
            if let Some(resumed) = resumed {
                self.restore(resumed)?;
            }
            self.on_fit_start()?;
            if !is_resumed {
                self.sanity_check(data)?;
            }
            epochs = self.train(data)?;
            self.on_fit_end()?;
        }
        self.teardown()?;
        Ok(FitOutcome {
            epochs,
            steps: self.state.global_step,
            stopped: self.state.stop.take().unwrap_or(StopReason::MaxEpochs),
            loss: self.state.loss,
            metrics: self.state.metrics(),
        })
    }

    /// Runs a few validation batches, so that a mistake in validation shows before hours of
    /// training.
    fn sanity_check(&mut self, data: &FitData<'_, M::Batch>) -> Result<(), TrainError> {
        let is_skipped = self.settings.num_sanity_val_steps == Some(0);
        let (Some(validation), false) = (self.validation(data), is_skipped) else {
            return Ok(());
        };
        self.on_sanity_check_start()?;
        if self.profiler.separates_sanity_check() {
            let profiler = self.profiler.clone();
            profiler.setup(Stage::SanityCheck, &self.state.run);
            let result = self.evaluate(validation, Stage::SanityCheck, None);
            profiler.teardown(Some(Stage::SanityCheck));
            result?;
        } else {
            self.evaluate(validation, Stage::SanityCheck, None)?;
        }
        self.on_sanity_check_end()
    }

    /// Writes a trial checkpoint if there is a checkpoint directory. If the module cannot save, or
    /// the directory is not writable, the fit ends before its first batch.
    fn check_checkpoints(&mut self) -> Result<(), TrainError> {
        let Some(directory) = &self.settings.checkpoint_dir else { return Ok(()) };
        if self.state.run.rank != 0 {
            return Ok(());
        }
        let mut is_written = false;
        let path = directory.join(format!("trial.{}", self.module.checkpoint_extension()));
        let result = write_whole_at(&path, |temporary| -> Result<()> {
            match self.module.weights()? {
                Some(_) => replace(temporary, b"")?,
                None => self.module.save_checkpoint(temporary)?,
            }
            is_written = true;
            // The error makes `write_whole_at` discard the file with its temporary folder.
            Err("a trial is not kept".into())
        });
        match result {
            Err(source) if !is_written => {
                Err(TrainError::Checkpoint { path: directory.clone(), source })
            }
            _ => Ok(()),
        }
    }

    /// Returns the validation data, if there is any and `limit_val_batches` is not 0.
    fn validation<'data>(
        &self,
        data: &FitData<'data, M::Batch>,
    ) -> Option<&'data dyn DataLoader<M::Batch>> {
        data.validation.filter(|_| !self.settings.limit_val_batches.is_zero())
    }

    fn train(&mut self, data: &FitData<'_, M::Batch>) -> Result<usize, TrainError> {
        let mut epochs = self.state.epoch;
        let max_epochs = self.settings.max_epochs.unwrap_or(usize::MAX);
        // The loader of the first epoch starts before the first hook, so that it can already fetch
        // batches. Loaders of later epochs start within their epoch.
        let mut opened = None;
        if self.state.epoch < max_epochs && !self.should_stop() {
            opened = Some(self.open_training_data(data)?);
        }
        self.on_train_start()?;
        let mut goes_on = self.state.epoch < max_epochs && !self.should_stop();
        while goes_on {
            self.state.metrics_of_passes().begin_pass(false);
            self.on_train_epoch_start()?;
            let is_whole = self.run_training_epoch(data, opened.take())?;
            self.state.epochs_run += 1;
            self.state.metrics_of_passes().finish_pass();
            if is_whole {
                self.state.resume_point.end_epoch(self.state.epoch, self.state.batches_run);
            }
            self.on_train_epoch_end()?;
            if is_whole {
                epochs += 1;
                self.plateau_step(LrInterval::Epoch)?;
                self.state.resume_point.is_plateau_due = false;
            }
            self.state.metrics_of_passes().end_pass();
            self.save_checkpoint()?;
            goes_on = !self.should_stop() && self.state.epoch + 1 < max_epochs;
            self.state.epoch += usize::from(goes_on);
        }
        progress::epochs_end();
        self.on_train_end()?;
        Ok(epochs)
    }

    /// Opens the training loader for an epoch.
    fn open_training_data<'data>(
        &mut self,
        data: &FitData<'data, M::Batch>,
    ) -> Result<Batches<'data, M::Batch>, TrainError> {
        let limit = (self.settings.limit_train_batches, "limit_train_batches");
        let batches = self.open(data.train, Stage::Fit, limit)?;
        self.state.num_batches = batches.total();
        Ok(batches)
    }

    /// Runs the batches of an epoch. Returns `true` if all were run or a hook skipped the rest, and
    /// `false` if the epoch was left early.
    fn run_training_epoch<'data>(
        &mut self,
        data: &FitData<'data, M::Batch>,
        opened: Option<Batches<'data, M::Batch>>,
    ) -> Result<bool, TrainError> {
        let profiler = self.profiler.clone();
        let _epoch = profiler.profile(self.actions.run_training_epoch);
        let mut batches = match opened {
            Some(batches) => batches,
            None => self.open_training_data(data)?,
        };
        let total = batches.total();
        let of = self.settings.max_epochs.map(|epochs| epochs as u64);
        progress::epoch_begins(self.state.epoch as u64, of, total.map(|steps| steps as u64));
        let validation = self.validation(data);
        let interval = match validation {
            Some(_) => self.settings.val_check_interval(total).map_err(TrainError::Setting)?,
            None => None,
        };
        // A resumed training skips the batches that it has already learned from.
        let mut index = self.state.resume_point.batch;
        batches.skip(index, &*profiler, &self.state)?;
        let is_at_end = batches.is_at_end();
        if index > 0
            && !self.state.resume_point.is_validated
            && let Some(validation) = validation
            && self.is_validation_due(interval, index, is_at_end)
        {
            self.validate(validation, true)?;
        }
        let mut is_whole = index > 0 && is_at_end;
        while !is_whole && !self.should_stop() {
            let Some((batch, is_last)) = batches.next(&*profiler, &self.state)? else {
                return Err(TrainError::NoBatches { loader: "training" });
            };
            self.state.batch_index = Some(index);
            self.batch = Some(self.batch_to_device(batch)?);
            let end = self.training_batch(index, is_last)?;
            if end == BatchEnd::EpochSkipped {
                self.state.batch_index = None;
                return Ok(true);
            }
            let is_stepped = end == BatchEnd::Stepped;
            let batch = self.batch.take();
            if let Some(samples) = batch.and_then(|batch| self.module.batch_size(&batch)) {
                progress::samples_processed(samples as u64);
            }
            self.state.batch_index = None;
            index += 1;
            self.state.batches_run += 1;
            profiler.step();
            if let Some(validation) = validation
                && self.is_validation_due(interval, index, is_last)
            {
                self.validate(validation, is_stepped)?;
            }
            if is_stepped {
                self.plateau_step(LrInterval::Step)?;
            }
            is_whole = is_last;
        }
        Ok(is_whole)
    }

    /// Runs a validation inside an epoch.
    fn validate(
        &mut self,
        validation: &dyn DataLoader<M::Batch>,
        is_stepped: bool,
    ) -> Result<(), TrainError> {
        self.state.resume_point.is_validated = true;
        self.profiler.pause();
        let result = self.validate_paused(validation, is_stepped);
        self.profiler.resume();
        result
    }

    fn validate_paused(
        &mut self,
        validation: &dyn DataLoader<M::Batch>,
        is_stepped: bool,
    ) -> Result<(), TrainError> {
        if is_stepped {
            self.on_validation_model_zero_grad()?;
        }
        self.evaluate(validation, Stage::Validate, None).map(drop)
    }

    /// Returns whether a validation comes after a batch, when `done` batches of the epoch are done.
    fn is_validation_due(&mut self, interval: Option<usize>, done: usize, is_last: bool) -> bool {
        let epochs = self.settings.check_val_every_n_epoch;
        if epochs.is_some_and(|epochs| !(self.state.epoch + 1).is_multiple_of(epochs)) {
            return false;
        }
        // A fit that ends on request validates the weights that it has learned.
        if self.requested_stop().is_some() {
            return true;
        }
        let done = if epochs.is_some() { done } else { self.state.batches_run };
        interval.map_or(is_last, |interval| done.is_multiple_of(interval))
    }

    /// Opens and measures the iterator of a loader.
    pub(super) fn open<'data>(
        &mut self,
        loader: &'data dyn DataLoader<M::Batch>,
        stage: Stage,
        (limit, setting): (super::Portion, &'static str),
    ) -> Result<Batches<'data, M::Batch>, TrainError> {
        let actions = self.actions.loader(stage);
        let context = epoch_context(&self.state);
        let iterator = {
            let _scope = self.profiler.profile(actions.dataloader);
            loader.batches(&context)
        };
        let iterator = iterator.map_err(|source| TrainError::Loader {
            loader: super::actions::loader_name(stage),
            position: self.state.position(),
            source,
        })?;
        Batches::new(iterator, limit, setting, actions)
    }
}

fn epoch_context(state: &TrainerState) -> EpochContext {
    EpochContext {
        epoch: if state.overfits { 0 } else { state.epoch },
        seed: state.seed.unwrap_or(0),
        rank: state.run.rank,
        world_size: state.run.world_size,
    }
}
