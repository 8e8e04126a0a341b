//! Functions shared by all loops: sending events, validation and the end of an epoch.

use std::sync::Arc;

use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::train::metric::store::EventStoreClient;
use burn::train::{
    CloneEarlyStoppingStrategy, EventProcessorTraining, InferenceStep, Interrupter, Learner,
    LearnerEvent, LearnerModel, LearningCheckpointer, TrainStep, TrainingComponents, TrainingItem,
    ValidLoader,
};
use mlprof_core::{Action, Profiler, ProfilerExt, progress};

use super::agreement::{Agreement, Decision};
use super::events::Events;
use crate::actions::FitActions;
use crate::session::Pause;
use crate::stop::{StopSignal, is_stopped_by_profiler};
use crate::version;

/// One run of a loop, with its profiler and the burn components that it drives.
pub(super) struct FitRun<M: LearnerModel> {
    pub(super) profiler: Arc<dyn Profiler>,
    pub(super) actions: FitActions,
    pub(super) stop: StopSignal,
    pub(super) interrupter: Interrupter,
    pub(super) events: Events<M>,
    pub(super) checkpointer: Option<LearningCheckpointer<M>>,
    pub(super) early_stopping: Option<Box<dyn CloneEarlyStoppingStrategy>>,
    pub(super) event_store: Arc<EventStoreClient>,
    pub(super) grad_accumulation: Option<usize>,
    pub(super) num_epochs: usize,
    /// Agreement of workers that take part in collective operations. `None` if a single thread runs
    /// the loop.
    pub(super) agreement: Option<Arc<Agreement>>,
}

/// Number of items that the loader has returned in an epoch, published for monitoring tools.
#[derive(Default)]
pub(super) struct Samples(usize);

impl Samples {
    /// Sets the number of items returned so far, including the current step.
    pub(super) fn are(&mut self, given: usize) {
        progress::samples_processed(given.saturating_sub(self.0) as u64);
        self.0 = self.0.max(given);
    }
}

/// Total number of items in one epoch.
#[derive(Clone, Copy)]
pub(super) struct Totals {
    pub(super) train: usize,
    pub(super) valid: usize,
}

/// Returns the initial progress of a split with `total` items.
fn items(total: usize) -> Progress {
    Progress::new(0, total, Some("items".to_owned()))
}

impl<M: LearnerModel> FitRun<M> {
    pub(super) fn new(
        profiler: Arc<dyn Profiler>,
        actions: FitActions,
        stop: StopSignal,
        components: TrainingComponents<M>,
    ) -> Self {
        Self {
            profiler,
            actions,
            stop,
            interrupter: components.interrupter,
            events: Events::Own(components.event_processor),
            checkpointer: components.checkpointer,
            early_stopping: components.early_stopping,
            event_store: components.event_store,
            grad_accumulation: components.grad_accumulation,
            num_epochs: components.num_epochs,
            agreement: None,
        }
    }

    /// Sends a training event, measured as `action`.
    pub(super) fn train_event(
        &mut self,
        action: Action,
        event: LearnerEvent<<M as TrainStep>::Output>,
    ) {
        let _scope = self.profiler.profile(action);
        let result = self.events.with(|processor| processor.process_train(event));
        self.interrupter.fail_on_error(result);
    }

    /// Sends a training item, measured as the end of its batch.
    pub(super) fn train_item(&mut self, item: TrainingItem<<M as TrainStep>::Output>) {
        let _scope = self.profiler.profile(self.actions.on_train_batch_end);
        let result = self.events.item(item);
        self.interrupter.fail_on_error(result);
    }

    /// Sends a validation event, measured as `action`.
    pub(super) fn valid_event(
        &mut self,
        action: Action,
        event: LearnerEvent<<M as InferenceStep>::Output>,
    ) {
        let _scope = self.profiler.profile(action);
        let result = self.events.with(|processor| processor.process_valid(event));
        self.interrupter.fail_on_error(result);
    }

    /// Fetches the next batch, measured as `action`. Returns `None` at the end of the data and
    /// after a loader error, which ends the run.
    pub(super) fn next_batch<O>(
        &self,
        batches: &mut dyn DataLoaderIterator<O>,
        action: Action,
    ) -> Option<O> {
        if self.stops_before_fetch() {
            return None;
        }
        let _scope = self.profiler.profile(action);
        match batches.next()? {
            Ok(batch) => Some(batch),
            Err(error) => {
                self.interrupter.fail(error);
                None
            }
        }
    }

    /// Fetches the next training batch, measured as `action`. With several workers, returns `None`
    /// as soon as one of them has no batch or must stop.
    pub(super) fn next_training_batch<O>(
        &self,
        batches: &mut dyn DataLoaderIterator<O>,
        action: Action,
    ) -> Option<O> {
        let Some(agreement) = &self.agreement else { return self.next_batch(batches, action) };
        let has_to_stop = self.should_stop();
        let batch = if has_to_stop { None } else { self.next_batch(batches, action) };
        let _scope = self.profiler.profile(self.actions.barrier);
        agreement.admit(batch, &self.interrupter)
    }

    /// Votes with `goes_on` and returns `true` if all workers continue.
    pub(super) fn all_go_on(&self, goes_on: bool) -> bool {
        let Some(agreement) = &self.agreement else { return goes_on };
        let _scope = self.profiler.profile(self.actions.barrier);
        agreement.vote(goes_on) == Decision::GoOn
    }

    /// Returns `true` if the run must end because of an interruption, an error, Ctrl-C or the
    /// profiler's observations.
    pub(super) fn should_stop(&self) -> bool {
        self.stop.check();
        self.is_stopped_by_profiler() || self.interrupter.should_stop()
    }

    /// Returns `true` if the run must end before the next batch is fetched, provided that this burn
    /// version checks that.
    pub(super) fn stops_before_fetch(&self) -> bool {
        version::CHECKS_STOP_BEFORE_FETCH && self.should_stop()
    }

    /// Returns `true` if the profiler requests the end of the training. The profiler's reason then
    /// becomes the interruption's reason.
    pub(super) fn is_stopped_by_profiler(&self) -> bool {
        is_stopped_by_profiler(&*self.profiler, &self.interrupter)
    }

    /// Runs all epochs of a loop on one thread.
    pub(super) fn run_epochs(
        &mut self,
        learner: &mut Learner<M>,
        valid: &ValidLoader<M>,
        totals: Totals,
        starting_epoch: usize,
        mut train_epoch: impl FnMut(&mut Self, &mut Learner<M>, usize) -> Progress,
    ) {
        let profiler = self.profiler.clone();
        for epoch in starting_epoch..=self.num_epochs {
            self.say_epoch(epoch);
            if !version::SPLIT_BEGINS_WITH_ITERATOR {
                self.start_train_split(epoch, items(totals.train));
            }
            let progress = {
                let _scope = profiler.profile(self.actions.run_training_epoch);
                train_epoch(self, learner, epoch)
            };
            self.end_train_split(epoch, progress);
            if self.should_stop() {
                self.log_interruption();
                break;
            }
            self.validate(learner, valid, epoch, totals);
            if self.end_epoch(learner, epoch) {
                break;
            }
        }
    }

    /// Publishes the epoch that begins, counted from 1, for monitoring tools. With several workers,
    /// only the main worker does so.
    pub(super) fn say_epoch(&self, epoch: usize) {
        if self.events.is_main() {
            // burn does not know the number of steps of the epoch, because loaders report items.
            progress::epoch_begins(
                epoch.saturating_sub(1) as u64,
                Some(self.num_epochs as u64),
                None,
            );
        }
    }

    pub(super) fn start_train_split(&mut self, epoch: usize, progress: Progress) {
        let event = version::start_split(epoch, progress);
        self.train_event(self.actions.on_train_epoch_start, event);
    }

    /// Sends the event that begins a training split, if this burn version sends it after the
    /// iterator was created. In a distributed training, only the main worker sends it.
    pub(super) fn iterator_made(&mut self, epoch: usize, progress: impl FnOnce() -> Progress) {
        if version::SPLIT_BEGINS_WITH_ITERATOR && self.agreement.is_none() {
            self.start_train_split(epoch, progress());
        }
    }

    /// Returns whether all workers apply the gradients that are left over at the end of the data. A
    /// metric that has failed by then prevents it.
    pub(super) fn applies_last_window(&mut self) -> bool {
        if !version::LAST_WINDOW_FOLLOWS_LOOP {
            return false;
        }
        self.flush();
        self.all_go_on(!self.should_stop())
    }

    pub(super) fn end_train_split(&mut self, epoch: usize, mut progress: Progress) {
        self.resolve_total(&mut progress);
        self.train_event(self.actions.on_train_epoch_end, version::end_split(epoch, progress));
        self.flush_at_split_end();
    }

    /// Sets an unknown total. A pass that was not stopped has seen all items.
    pub(super) fn resolve_total(&self, progress: &mut Progress) {
        version::resolve_total(progress, || !self.should_stop());
    }

    fn flush_at_split_end(&mut self) {
        if version::FLUSHES_AT_SPLIT_END {
            self.flush();
        }
    }

    pub(super) fn log_interruption(&self) {
        if let Some(interruption) = self.interrupter.interruption() {
            let reason = interruption.reason.as_deref().unwrap_or("reason unknown");
            log::info!("Training interrupted: {reason}");
        }
    }

    /// Ends a profiler step after a training batch. With several workers, only the main worker's
    /// batches count.
    pub(super) fn end_step(&self) {
        if self.events.is_main() {
            self.profiler.step();
        }
    }

    /// Runs the validation with all its events, and sends the event that ends the epoch.
    pub(super) fn validate(
        &mut self,
        learner: &Learner<M>,
        loader: &ValidLoader<M>,
        epoch: usize,
        totals: Totals,
    ) {
        let _pause = Pause::begin(&self.profiler);
        if !version::SPLIT_BEGINS_WITH_ITERATOR {
            self.start_valid_split(epoch, items(totals.valid));
        }
        let profiler = self.profiler.clone();
        let mut progress = {
            let _scope = profiler.profile(self.actions.run_validation_epoch);
            self.validation_epoch(&*profiler, learner, loader, epoch)
        };
        self.flush_at_split_end();
        self.resolve_total(&mut progress);
        self.valid_event(self.actions.on_validation_end, version::end_split(epoch, progress));
        self.flush_at_split_end();
        if version::ENDS_STOPPED_EPOCH || !self.should_stop() {
            self.train_event(self.actions.on_epoch_end, LearnerEvent::EndEpoch(epoch));
        }
    }

    fn start_valid_split(&mut self, epoch: usize, progress: Progress) {
        let event = version::start_split(epoch, progress);
        self.valid_event(self.actions.on_validation_start, event);
    }

    fn validation_epoch(
        &mut self,
        profiler: &dyn Profiler,
        learner: &Learner<M>,
        loader: &ValidLoader<M>,
        epoch: usize,
    ) -> Progress {
        log::info!("Executing validation step for epoch {epoch}");
        let actions = self.actions;
        let model = learner.model().valid();
        let mut batches = {
            let _scope = profiler.profile(actions.val_dataloader);
            loader.iter()
        };
        if version::SPLIT_BEGINS_WITH_ITERATOR {
            self.start_valid_split(epoch, batches.progress());
        }
        let mut iteration = 0;
        while let Some(batch) = self.next_batch(&mut *batches, actions.val_next) {
            let progress = batches.progress();
            iteration += 1;
            let output = {
                let _scope = profiler.profile(actions.validation_step);
                InferenceStep::step(&model, batch)
            };
            let item = TrainingItem::new(output, progress, Some(iteration), None);
            self.valid_event(actions.on_validation_batch_end, LearnerEvent::ProcessedItem(item));
            if self.should_stop() {
                break;
            }
        }
        batches.progress()
    }

    /// Runs flush, checkpoint and early stopping. Returns `true` if this epoch was the last.
    fn end_epoch(&mut self, learner: &Learner<M>, epoch: usize) -> bool {
        if self.checkpointer.is_some() || self.early_stopping.is_some() {
            self.flush();
        }
        if self.should_stop() {
            return true;
        }
        self.save_checkpoint(learner, epoch);
        self.stops_early(epoch)
    }

    pub(super) fn flush(&mut self) {
        let _scope = self.profiler.profile(self.actions.flush_events);
        let result = self.events.with(|processor| processor.flush());
        self.interrupter.fail_on_error(result);
    }

    pub(super) fn save_checkpoint(&mut self, learner: &Learner<M>, epoch: usize) {
        if let Some(checkpointer) = &mut self.checkpointer {
            let _scope = self.profiler.profile(self.actions.save_checkpoint);
            checkpointer.checkpoint(learner, epoch, &self.event_store);
        }
    }

    pub(super) fn stops_early(&mut self, epoch: usize) -> bool {
        self.early_stopping.as_mut().is_some_and(|early_stopping| {
            let _scope = self.profiler.profile(self.actions.early_stopping);
            early_stopping.should_stop(epoch, &self.event_store)
        })
    }

    /// Drops the loop's resources in a measured action and returns the event destination.
    pub(super) fn finish<T>(self, held: T) -> Events<M> {
        if self.events.is_main() {
            progress::epochs_end();
        }
        let _scope = self.profiler.profile(self.actions.teardown);
        drop(self.checkpointer);
        drop(held);
        self.events
    }
}
