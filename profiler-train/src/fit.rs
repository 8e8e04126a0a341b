//! The fit: sanity check, epochs, validation when it is due, checkpoints.

use super::error::TrainError;
use super::fetch::Batches;
use super::loader::{DataLoader, EpochContext};
use super::module::TrainModule;
use super::optimizer::{LrInterval, Optimizers, TrainOptimizer};
use super::outcome::{FitOutcome, StopReason};
use super::run::Run;
use super::state::TrainerState;
use profiler_core::output::say;
use profiler_core::{ProfilerExt, Stage, progress};

/// The data of a fit.
pub(super) struct FitData<'data, Batch> {
    pub(super) train: &'data dyn DataLoader<Batch>,
    pub(super) validation: Option<&'data dyn DataLoader<Batch>>,
}

impl<M: TrainModule> Run<'_, M> {
    /// The whole fit, from its first hook to its last.
    pub(super) fn fit(&mut self, data: &FitData<'_, M::Batch>) -> Result<FitOutcome, TrainError> {
        self.begin()?;
        let mut epochs = 0;
        if self.settings.limit_train_batches.is_zero() {
            self.state.stop = Some(StopReason::Skipped);
            say("mlprof: limit_train_batches is 0: training is skipped");
        } else {
            let mut optimizers = self.configure_optimizers()?;
            self.state.learning_rate = Some(optimizers.optimizer.learning_rate());
            self.on_fit_start()?;
            self.sanity_check(data)?;
            epochs = self.train(&mut optimizers, data)?;
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

    fn train(
        &mut self,
        optimizers: &mut Optimizers<M::Optimizer>,
        data: &FitData<'_, M::Batch>,
    ) -> Result<usize, TrainError> {
        let mut epochs = 0;
        let max_epochs = self.settings.max_epochs.unwrap_or(usize::MAX);
        let mut upcoming = None;
        if max_epochs > 0 && !self.should_stop() {
            upcoming = Some(self.open_training_data(data)?);
        }
        self.on_train_start()?;
        while let Some(mut batches) = upcoming.take() {
            let of = self.settings.max_epochs.map(|epochs| epochs as u64);
            let steps = batches.total().map(|steps| steps as u64);
            progress::epoch_begins(self.state.epoch as u64, of, steps);
            self.on_train_epoch_start()?;
            let is_whole = self.run_training_epoch(optimizers, data, &mut batches)?;
            drop(batches);
            self.state.means.end(true);
            self.on_train_epoch_end()?;
            if is_whole {
                epochs += 1;
                self.lr_scheduler_step(optimizers, LrInterval::Epoch)?;
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

    /// All batches of an epoch. False if it was left early.
    fn run_training_epoch(
        &mut self,
        optimizers: &mut Optimizers<M::Optimizer>,
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
        let mut index = 0;
        loop {
            self.state.batch_index = None;
            self.state.num_batches = total;
            let Some((batch, is_last)) = batches.next(&*profiler, &self.state)? else { break };
            self.state.batch_index = Some(index);
            let batch = self.batch_to_device(batch)?;
            self.training_batch(optimizers, &batch, index, is_last)?;
            if let Some(samples) = self.module.batch_size(&batch) {
                progress::samples_processed(samples as u64);
            }
            drop(batch);
            self.state.batch_index = None;
            index += 1;
            profiler.step();
            let is_due = interval.map_or(is_last, |interval| index.is_multiple_of(interval));
            if let (true, Some(validation)) = (is_due, self.validation(data)) {
                profiler.pause();
                let result = self.evaluate(validation, Stage::Validate);
                profiler.resume();
                result?;
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
