//! Definitions for burn 0.22. A split's events surround its epoch and carry its number of items.

use std::sync::Arc;

use burn::data::dataloader::{DataLoader, Progress};
#[cfg(feature = "rl")]
use burn::train::AgentEvaluationEvent;
use burn::train::{LearnerEvent, TrainingItem};

/// `true` if a split begins after its iterator was created, `false` if it begins before its epoch.
pub(crate) const SPLIT_BEGINS_WITH_ITERATOR: bool = false;

/// `true` if the loop waits for the event thread before and after the event that ends a split.
pub(crate) const FLUSHES_AT_SPLIT_END: bool = false;

/// `true` if an epoch that was stopped during validation still sends its end event.
pub(crate) const ENDS_STOPPED_EPOCH: bool = true;

/// `true` if a loop also checks for a stop request before it fetches a batch, not only after it.
pub(crate) const CHECKS_STOP_BEFORE_FETCH: bool = false;

/// `true` if gradients left over at the end of the data are applied after the loop. Otherwise, they
/// are applied by the batch that completes the loader's progress.
pub(crate) const LAST_WINDOW_FOLLOWS_LOOP: bool = false;

/// `true` if the main worker of a distributed training ends each epoch for all workers.
pub(crate) const MAIN_WORKER_ENDS_EPOCH: bool = false;

/// `true` if a step on several devices also reports the progress of exhausted loaders.
pub(crate) const COUNTS_ENDED_LOADERS: bool = false;

/// Returns the event that begins a split.
pub(crate) fn start_split<T>(epoch_number: usize, progress: Progress) -> LearnerEvent<T> {
    LearnerEvent::StartSplit { epoch_number, total_items: progress.items_total }
}

/// Returns the event that ends a split. It carries no progress.
pub(crate) fn end_split<T>(epoch: usize, _progress: Progress) -> LearnerEvent<T> {
    LearnerEvent::EndSplit(epoch)
}

/// Returns the event that ends an agent's evaluation. It carries no progress.
#[cfg(feature = "rl")]
pub(crate) fn end_evaluation<T>(_done: usize, _all: usize) -> AgentEvaluationEvent<T> {
    AgentEvaluationEvent::End
}

/// Returns `true` if the batch just fetched applies the gradients that are left over.
pub(crate) fn is_last_batch(progress: &Progress) -> bool {
    progress.is_completed()
}

/// Sets an unknown total to the number of items seen, if all were seen. burn 0.22 always knows the
/// total.
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

/// Returns by how much a batch of one worker advances the iteration count of all `workers`.
pub(crate) fn iterations_per_batch(workers: usize) -> usize {
    workers
}

/// Combined progress of the workers of a distributed training: each worker's progress times the
/// number of workers.
pub(crate) struct WorkersProgress {
    total: usize,
    workers: usize,
}

impl WorkersProgress {
    /// Creates the progress from the loader of the whole data and the loaders of the workers.
    pub(crate) fn new<O>(all: &dyn DataLoader<O>, parts: &[Arc<dyn DataLoader<O>>]) -> Self {
        Self { total: all.num_items(), workers: parts.len() }
    }

    /// Returns the progress at the beginning of an epoch.
    pub(crate) fn begin(&mut self) -> Progress {
        self.sum()
    }

    /// Replaces the progress of a worker's item with the progress of all workers.
    pub(crate) fn add<T>(&mut self, _worker: usize, item: &mut TrainingItem<T>) {
        item.progress.items_processed *= self.workers;
        item.progress.items_total *= self.workers;
    }

    /// Records a worker's progress at the end of an epoch.
    pub(crate) fn end(&mut self, _worker: usize, _progress: Progress) {}

    /// Returns the progress of all workers, which the event that ends a split does not use here.
    pub(crate) fn sum(&self) -> Progress {
        Progress::new(0, self.total, Some("items".to_owned()))
    }
}

/// Expands the macro `$name` with the methods by which a training progress logger receives splits.
macro_rules! training_splits {
    ($($hand_on:tt)+) => {
        $($hand_on)+! {
            fn start_split(split: &str, total_items: usize);
            fn update_split(items_processed: usize);
            fn end_split();
        }
    };
}

/// Expands the macro `$name` with the methods by which an evaluation progress logger receives test
/// sets.
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
