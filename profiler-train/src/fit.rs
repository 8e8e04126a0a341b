//! The fit: sanity check, epochs, validation when it is due, checkpoints.

use std::path::Path;

use super::checkpoint::ResumePoint;
use super::error::TrainError;
use super::fetch::Batches;
use super::loader::{DataLoader, EpochContext};
use super::module::TrainModule;
use super::optimizer::{LrInterval, TrainOptimizer};
use super::outcome::{FitOutcome, StopReason};
use super::run::{Run, configured};
use super::state::TrainerState;
use profiler_core::output::say;
use profiler_core::{ProfilerExt, Stage, progress};

/// The data of a fit.
pub(super) struct FitData<'data, Batch> {
    pub(super) train: &'data dyn DataLoader<Batch>,
    pub(super) validation: Option<&'data dyn DataLoader<Batch>>,
    /// The checkpoint to go on from.
    pub(super) ckpt_path: Option<&'data Path>,
}

impl<M: TrainModule> Run<'_, M> {
    /// The whole fit, from its first hook to its last.
    pub(super) fn fit(&mut self, data: &FitData<'_, M::Batch>) -> Result<FitOutcome, TrainError> {
        let resumed = data.ckpt_path.map(|path| self.read_checkpoint(path)).transpose()?;
        self.begin()?;
        let mut epochs = 0;
        if self.settings.limit_train_batches.is_zero() {
            self.state.stop = Some(StopReason::Skipped);
            say("mlprof: limit_train_batches is 0: training is skipped");
        } else {
            self.configure_optimizers()?;
            let is_resumed = resumed.is_some();
            if let Some(resumed) = resumed {
                self.restore(resumed)?;
            }
            self.state.learning_rate = Some(configured(&mut self.optimizers).learning_rate());
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
            metrics: std::mem::take(&mut self.state.means.finished),
        })
    }

    /// A few validation batches, so that a mistake shows before hours of training.
    fn sanity_check(&mut self, data: &FitData<'_, M::Batch>) -> Result<(), TrainError> {
        let steps = self.settings.num_sanity_val_steps;
        let (Some(validation), false) = (self.validation(data), steps == 0) else {
            return Ok(());
        };
        self.on_sanity_check_start()?;
        let profiler = self.profiler.clone();
        profiler.setup(Stage::SanityCheck, &self.state.run);
        let result = self.evaluate(validation, Stage::SanityCheck);
        profiler.teardown(Some(Stage::SanityCheck));
        result?;
        self.on_sanity_check_end()
    }

    /// The validation data, unless there is none or it is not to be used.
    fn validation<'data>(
        &self,
        data: &FitData<'data, M::Batch>,
    ) -> Option<&'data dyn DataLoader<M::Batch>> {
        data.validation.filter(|_| !self.settings.limit_val_batches.is_zero())
    }

    fn train(&mut self, data: &FitData<'_, M::Batch>) -> Result<usize, TrainError> {
        let mut epochs = self.state.epoch;
        let max_epochs = self.settings.max_epochs.unwrap_or(usize::MAX);
        let mut upcoming = None;
        if self.state.epoch < max_epochs && !self.should_stop() {
            upcoming = Some(self.open_training_data(data)?);
        }
        self.on_train_start()?;
        while let Some(mut batches) = upcoming.take() {
            let of = self.settings.max_epochs.map(|epochs| epochs as u64);
            let steps = batches.total().map(|steps| steps as u64);
            progress::epoch_begins(self.state.epoch as u64, of, steps);
            self.on_train_epoch_start()?;
            let is_whole = self.run_training_epoch(data, &mut batches)?;
            drop(batches);
            self.state.means.end(true);
            if is_whole {
                self.state.resume_point =
                    ResumePoint { epoch: self.state.epoch + 1, ..ResumePoint::default() };
            }
            self.on_train_epoch_end()?;
            if is_whole {
                epochs += 1;
                self.lr_scheduler_step(LrInterval::Epoch)?;
            }
            self.save_checkpoint()?;
            if self.state.epoch + 1 < max_epochs && !self.should_stop() {
                self.state.epoch += 1;
                upcoming = Some(self.open_training_data(data)?);
            }
        }
        progress::epochs_end();
        self.on_train_end()?;
        Ok(epochs)
    }

    /// The batches of the epoch that is to come.
    fn open_training_data<'data>(
        &mut self,
        data: &FitData<'data, M::Batch>,
    ) -> Result<Batches<'data, M::Batch>, TrainError> {
        let limit = (self.settings.limit_train_batches, "limit_train_batches");
        let batches = self.open(data.train, Stage::Fit, limit)?;
        self.state.means.begin();
        Ok(batches)
    }

    /// All batches of an epoch, or those before a hook skipped the rest. False if it was left early.
    fn run_training_epoch(
        &mut self,
        data: &FitData<'_, M::Batch>,
        batches: &mut Batches<'_, M::Batch>,
    ) -> Result<bool, TrainError> {
        let profiler = self.profiler.clone();
        let _epoch = profiler.profile(self.actions.run_training_epoch);
        let total = batches.total();
        let interval = self.settings.val_check_interval;
        let interval = match data.validation {
            Some(_) => interval.of(total, "val_check_interval").map_err(TrainError::Setting)?,
            None => None,
        };
        // Those that a checkpoint has learned from already.
        let mut index = self.state.resume_point.batch;
        batches.skip(index, &*profiler, &self.state)?;
        let is_due = |index: usize, is_last| {
            interval.map_or(is_last, |interval| index.is_multiple_of(interval))
        };
        if index > 0 && !self.state.resume_point.is_validated && is_due(index, batches.is_at_end())
        {
            self.validate(data)?;
        }
        loop {
            self.state.batch_index = None;
            self.state.num_batches = total;
            let Some((batch, is_last)) = batches.next(&*profiler, &self.state)? else { break };
            self.state.batch_index = Some(index);
            self.batch = Some(self.batch_to_device(batch)?);
            if !self.training_batch(index, is_last)? {
                return Ok(true);
            }
            let batch = self.batch.take();
            if let Some(samples) = batch.and_then(|batch| self.module.batch_size(&batch)) {
                progress::samples_processed(samples as u64);
            }
            self.state.batch_index = None;
            index += 1;
            profiler.step();
            if is_due(index, is_last) {
                self.validate(data)?;
            }
            if self.should_stop() {
                return Ok(is_last);
            }
            if is_last {
                break;
            }
        }
        if index == 0 {
            return Err(TrainError::NoBatches { loader: "training" });
        }
        Ok(true)
    }

    /// A validation inside a training epoch, if there is data for it.
    fn validate(&mut self, data: &FitData<'_, M::Batch>) -> Result<(), TrainError> {
        let Some(validation) = self.validation(data) else { return Ok(()) };
        self.state.resume_point.is_validated = true;
        self.profiler.pause();
        let result = self.evaluate(validation, Stage::Validate);
        self.profiler.resume();
        result.map(drop)
    }

    /// Makes the iterator over a loader.
    pub(super) fn open<'data>(
        &mut self,
        loader: &'data dyn DataLoader<M::Batch>,
        stage: Stage,
        (limit, setting): (super::Limit, &'static str),
    ) -> Result<Batches<'data, M::Batch>, TrainError> {
        let actions = self.actions.loader(stage);
        let context = epoch_context(&self.state);
        let iterator = {
            let _scope = self.profiler.profile(actions.dataloader);
            loader.batches(&context)
        };
        let iterator = iterator.map_err(|source| TrainError::Loader {
            loader: super::actions::loader_name(stage),
            place: self.state.place(),
            source,
        })?;
        Batches::new(iterator, limit, setting, actions)
    }
}

fn epoch_context(state: &TrainerState) -> EpochContext {
    EpochContext {
        epoch: state.epoch,
        seed: state.seed.unwrap_or(0),
        rank: state.run.rank,
        world_size: state.run.world_size,
    }
}
