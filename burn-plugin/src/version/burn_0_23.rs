//! Definitions for burn 0.23. A split's events are sent within its epoch and carry its progress.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, Progress};
#[cfg(feature = "rl")]
use burn::train::AgentEvaluationEvent;
use burn::train::{LearnerEvent, TrainingItem};

/// `true` if a split begins after its iterator was created, `false` if it begins before its epoch.
pub(crate) const SPLIT_BEGINS_WITH_ITERATOR: bool = true;

/// `true` if the loop waits for the event thread before and after the event that ends a split.
pub(crate) const FLUSHES_AT_SPLIT_END: bool = true;

/// `true` if an epoch that was stopped during validation still sends its end event.
pub(crate) const ENDS_STOPPED_EPOCH: bool = false;

/// `true` if a loop also checks for a stop request before it fetches a batch, not only after it.
pub(crate) const CHECKS_STOP_BEFORE_FETCH: bool = true;

/// `true` if gradients left over at the end of the data are applied after the loop. Otherwise, they
/// are applied by the batch that completes the loader's progress.
pub(crate) const LAST_WINDOW_FOLLOWS_LOOP: bool = true;

/// `true` if the main worker of a distributed training ends each epoch for all workers.
pub(crate) const MAIN_WORKER_ENDS_EPOCH: bool = true;

/// `true` if a step on several devices also reports the progress of exhausted loaders.
pub(crate) const COUNTS_ENDED_LOADERS: bool = true;

/// Returns the event that begins a split.
pub(crate) fn start_split<T>(epoch_number: usize, progress: Progress) -> LearnerEvent<T> {
    LearnerEvent::StartSplit { epoch_number, progress }
}

/// Returns the event that ends a split.
pub(crate) fn end_split<T>(epoch: usize, progress: Progress) -> LearnerEvent<T> {
    LearnerEvent::EndSplit { epoch, progress }
}

/// Returns the event that ends an agent's evaluation after `done` of `all` episodes.
#[cfg(feature = "rl")]
pub(crate) fn end_evaluation<T>(done: usize, all: usize) -> AgentEvaluationEvent<T> {
    AgentEvaluationEvent::End { progress: Progress::new(done, all, Some("episodes".to_owned())) }
}

/// Returns `false`. Gradients that are left over are applied after the loop: see
/// [`LAST_WINDOW_FOLLOWS_LOOP`].
pub(crate) fn is_last_batch(_progress: &Progress) -> bool {
    false
}

/// Sets an unknown total to the number of items seen, if all were seen.
pub(crate) fn resolve_total(progress: &mut Progress, is_complete: impl FnOnce() -> bool) {
    if is_complete() {
        progress.resolve_total();
    }
}

/// Returns the sum of the progress of several loaders.
pub(crate) fn aggregate(parts: impl IntoIterator<Item = Progress>) -> Progress {
    Progress::aggregate(parts)
}

/// Returns by how much a batch of one worker advances the iteration that this worker logs.
pub(crate) fn iterations_per_batch(_workers: usize) -> usize {
    1
}

/// Combined progress of the workers of a distributed training: the sum over all workers.
pub(crate) struct WorkersProgress {
    totals: Vec<Option<usize>>,
    parts: Vec<Progress>,
    iteration: usize,
}

impl WorkersProgress {
    /// Creates the progress from the loader of the whole data and the loaders of the workers.
    pub(crate) fn new<O>(_all: &dyn DataLoader<O>, parts: &[Arc<dyn DataLoader<O>>]) -> Self {
        let totals = parts.iter().map(|part| part.expected_num_items()).collect();
        Self { totals, parts: Vec::new(), iteration: 0 }
    }

    /// Returns the progress at the beginning of an epoch.
    pub(crate) fn begin(&mut self) -> Progress {
        let unit = || Some("items".to_owned());
        self.parts = self.totals.iter().map(|total| Progress::new(0, *total, unit())).collect();
        self.iteration = 0;
        self.sum()
    }

    /// Replaces the progress and the iteration of a worker's item with those of all workers.
    pub(crate) fn add<T>(&mut self, worker: usize, item: &mut TrainingItem<T>) {
        self.parts[worker] = item.progress.clone();
        self.iteration += 1;
        item.progress = self.sum();
        item.iteration = Some(self.iteration);
    }

    /// Records a worker's progress at the end of an epoch.
    pub(crate) fn end(&mut self, worker: usize, progress: Progress) {
        self.parts[worker] = progress;
    }

    /// Returns the progress of all workers.
    pub(crate) fn sum(&self) -> Progress {
        Progress::aggregate(&self.parts)
    }
}

/// Expands the macro `$name` with the methods by which a training progress logger receives splits.
macro_rules! training_splits {
    ($($hand_on:tt)+) => {
        $($hand_on)+! {
            fn start_split(split: &str, progress: &burn::data::dataloader::Progress);
            fn update_split(progress: &burn::data::dataloader::Progress);
            fn end_split(progress: &burn::data::dataloader::Progress);
        }
    };
}

/// Expands the macro `$name` with the methods by which an evaluation progress logger receives test
/// sets.
macro_rules! evaluation_splits {
    ($($hand_on:tt)+) => {
        $($hand_on)+! {
            fn start_test(name: &str, progress: &burn::data::dataloader::Progress);
            fn update_test_progress(progress: &burn::data::dataloader::Progress);
            fn end_test(progress: &burn::data::dataloader::Progress);
        }
    };
}

pub(crate) use {evaluation_splits, training_splits};
