//! burn 0.22. A split's events surround its epoch and carry its number of items.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, Progress};
#[cfg(feature = "rl")]
use burn::train::AgentEvaluationEvent;
use burn::train::{LearnerEvent, TrainingItem};

/// Whether a split begins when its iterator has been made. Otherwise it begins before its epoch.
pub(crate) const SPLIT_BEGINS_WITH_ITERATOR: bool = false;

/// Whether the loop waits for the metrics' thread before and after the event that ends a split.
pub(crate) const FLUSHES_AT_SPLIT_END: bool = false;

/// Whether an epoch ends with its event when the loop was stopped in its validation.
pub(crate) const ENDS_STOPPED_EPOCH: bool = true;

/// Whether a loop checks for a stop before it fetches a batch, not only after one.
pub(crate) const CHECKS_STOP_BEFORE_FETCH: bool = false;

/// Whether gradients that are left over when the data ends are applied after the loop. Otherwise
/// the batch that completes the loader's progress applies them.
pub(crate) const LAST_WINDOW_FOLLOWS_LOOP: bool = false;

/// Whether the main worker of a distributed training ends each epoch for all workers.
pub(crate) const MAIN_WORKER_ENDS_EPOCH: bool = false;

/// Whether a step on several devices reports the progress of loaders that have ended, too.
pub(crate) const COUNTS_ENDED_LOADERS: bool = false;

/// Returns the event that begins a split.
pub(crate) fn start_split<T>(epoch_number: usize, progress: Progress) -> LearnerEvent<T> {
    LearnerEvent::StartSplit { epoch_number, total_items: progress.items_total }
}

/// Returns the event that ends a split. It carries no progress.
pub(crate) fn end_split<T>(epoch: usize, _progress: Progress) -> LearnerEvent<T> {
    LearnerEvent::EndSplit(epoch)
}

/// Returns the event that ends the evaluation of an agent. It carries no progress.
#[cfg(feature = "rl")]
pub(crate) fn end_evaluation<T>(_done: usize, _all: usize) -> AgentEvaluationEvent<T> {
    AgentEvaluationEvent::End
}

/// Returns whether the batch just fetched applies the gradients that are left over.
pub(crate) fn is_last_batch(progress: &Progress) -> bool {
    progress.is_completed()
}

/// Sets an unknown total to the number of items seen, if those are all. burn 0.22 knows all totals.
pub(crate) fn resolve_total(_progress: &mut Progress, _is_complete: impl FnOnce() -> bool) {}

/// Returns the sum of the progress of several loaders.
pub(crate) fn aggregate(parts: impl IntoIterator<Item = Progress>) -> Progress {
    let sum = Progress::new(0, 0, Some("items".to_owned()));
    parts.into_iter().fold(sum, |mut sum, part| {
        sum.items_processed += part.items_processed;
        sum.items_total += part.items_total;
        sum
    })
}

/// Returns how far a batch of one worker advances the iteration of all `workers`.
pub(crate) fn iterations_per_batch(workers: usize) -> usize {
    workers
}

/// The progress that the workers of a distributed training report together: each one's, times their
/// number.
pub(crate) struct WorkersProgress {
    total: usize,
    workers: usize,
}

impl WorkersProgress {
    /// Takes the loader of all and the loaders of the workers.
    pub(crate) fn new<O>(all: &dyn DataLoader<O>, parts: &[Arc<dyn DataLoader<O>>]) -> Self {
        Self { total: all.num_items(), workers: parts.len() }
    }

    /// Returns the progress at the beginning of an epoch.
    pub(crate) fn begin(&mut self) -> Progress {
        self.sum()
    }

    /// Replaces the progress of a worker's item by that of all workers.
    pub(crate) fn add<T>(&mut self, _worker: usize, item: &mut TrainingItem<T>) {
        item.progress.items_processed *= self.workers;
        item.progress.items_total *= self.workers;
    }

    /// Takes a worker's progress at the end of an epoch.
    pub(crate) fn end(&mut self, _worker: usize, _progress: Progress) {}

    /// Returns the progress of all workers. The event that ends a split has no use for it.
    pub(crate) fn sum(&self) -> Progress {
        Progress::new(0, self.total, Some("items".to_owned()))
    }
}

/// The methods by which a logger of training progress learns of splits, for the macro
/// that is named.
macro_rules! training_splits {
    ($($hand_on:tt)+) => {
        $($hand_on)+! {
            fn start_split(split: &str, total_items: usize);
            fn update_split(items_processed: usize);
            fn end_split();
        }
    };
}

/// The methods by which a logger of evaluation progress learns of test sets, for the
/// macro that is named.
macro_rules! evaluation_splits {
    ($($hand_on:tt)+) => {
        $($hand_on)+! {
            fn start_test(name: &str, total_items: usize);
            fn update_test_progress(items_processed: usize);
            fn end_test();
        }
    };
}

pub(crate) use {evaluation_splits, training_splits};
