//! The names of everything that is measured, in one place.
//!
//! They follow Lightning's patterns: a bare name for what the trainer does, and
//! `[Kind]Type.hook` for a method of something that can be replaced, with the short name of its
//! Rust type. Names are interned before a loop starts, so that the loop carries 4-byte handles
//! and allocates nothing for profiling.
//!
//! | name | what it covers | thread |
//! |---|---|---|
//! | `setup` | from `launch` to the start of the fit: log files, metric thread, loading a checkpoint | loop |
//! | `[Strategy]….setup` | telling the loaders their device, moving the model to it | loop |
//! | `[Callback]EventProcessor.….` | handing an event to the metrics' thread, waiting while it is full | loop |
//! | `[EventProcessor].process_…` | all that this thread then does, see [`measure_event_thread`](crate::ProfiledTraining::measure_event_thread) | its own |
//! | `[Metric]….update`, `….compute` | one metric | its own |
//! | `[MetricsRenderer].update`, `.progress` | the renderer | its own |
//! | `[_TrainingEpochLoop].train_dataloader_next` | waiting for a batch; the last call finds the end | loop |
//! | `run_training_batch` | one batch without fetching it: the three or four rows below; on several devices from when all have theirs | loop |
//! | `[TrainStep]….training_step` | burn's `TrainStep::step`: forward *and* backward | loop or worker |
//! | `backward` | backward alone, where the model says so, see [`ProfileBackwardExt`](crate::ProfileBackwardExt) | as above |
//! | `accumulate_gradients` | gradient accumulation, gathering from several devices | loop |
//! | `lr_scheduler_step` | the learning-rate schedule moving on | loop |
//! | `Optimizer.step` | the optimizer's own update of the parameters | loop |
//! | `[InferenceStep]….validation_step` | burn's `InferenceStep::step` | loop |
//! | `flush_events` | waiting for the metrics' thread before a checkpoint or early stopping; with burn 0.23 around the end of each split, too | loop |
//! | `save_checkpoint` | making the records and handing them to their threads | loop |
//! | `teardown` | ending the loop: waiting for checkpoints to be written, freeing loaders | loop |

#[cfg(feature = "train")]
use mlprof_core::Action;
pub use mlprof_core::names::{
    BACKWARD, LR_SCHEDULER_STEP, OPTIMIZER_UPDATE, RUN_TRAINING_BATCH, RUN_TRAINING_EPOCH,
    SAVE_CHECKPOINT, TEST_NEXT, TRAIN_DATALOADER_NEXT, VAL_NEXT,
};
use mlprof_core::names::{hook, short_type_name};

/// From `launch` until the fit starts.
pub const SETUP: &str = "setup";
/// Freeing what the loop held; waits until checkpoints are on the disk.
pub const TEARDOWN: &str = "teardown";
/// All validation batches of one epoch, their fetching included.
pub const RUN_VALIDATION_EPOCH: &str = "run_validation_epoch";
/// Making the iterator over the training loader.
pub const TRAIN_DATALOADER: &str = "train_dataloader";
/// Making the iterator over the validation loader.
pub const VAL_DATALOADER: &str = "val_dataloader";
/// Making the iterator over a test loader.
pub const TEST_DATALOADER: &str = "test_dataloader";
/// Adding gradients up over batches or devices.
pub const ACCUMULATE_GRADIENTS: &str = "accumulate_gradients";
/// Waiting until the metrics' thread has done all it was given.
pub const FLUSH_EVENTS: &str = "flush_events";
/// Deciding on early stopping.
pub const EARLY_STOPPING: &str = "[Callback]EarlyStopping.should_stop";
/// Several devices only: waiting for the others.
pub const BARRIER: &str = "[Strategy]DistributedDataParallel.barrier";
/// A custom strategy's whole `train`.
pub const CUSTOM_STRATEGY: &str = "[Strategy]Custom.train";
/// A whole evaluation over all its test sets.
pub const RUN_TEST_EVALUATION: &str = "run_test_evaluation";
/// One test batch after it was fetched: the step, and handing its outcome to the metrics.
pub const RUN_TEST_BATCH: &str = "run_test_batch";
/// Training events on the metrics' own thread.
pub const PROCESS_TRAIN: &str = "[EventProcessor].process_train";
/// Validation events on the metrics' own thread.
pub const PROCESS_VALID: &str = "[EventProcessor].process_valid";
/// The renderer taking a metric's new value.
pub const RENDERER_UPDATE: &str = "[MetricsRenderer].update";
/// The renderer drawing progress.
pub const RENDERER_PROGRESS: &str = "[MetricsRenderer].progress";
/// A progress logger.
pub const PROGRESS_LOGGER: &str = "[ProgressLogger].progress";

/// `[Callback]EventProcessor.{hook}`: handing an event to metrics and renderer.
pub fn event(name: &str) -> String {
    hook("Callback", "EventProcessor", name)
}

/// `[Strategy]{strategy}.{hook}`.
pub fn strategy(strategy: &str, name: &str) -> String {
    hook("Strategy", strategy, name)
}

/// `[TrainStep]{Model}.training_step`.
pub fn training_step<M>() -> String {
    hook("TrainStep", short_type_name::<M>(), "training_step")
}

/// `[InferenceStep]{Model}.{hook}`, where the hook is `validation_step` or `test_step`.
pub fn inference_step<M>(name: &str) -> String {
    hook("InferenceStep", short_type_name::<M>(), name)
}

/// `[Metric]{Metric}.{hook}`, where the hook is `update` or `compute`.
pub fn metric<M>(name: &str) -> String {
    hook("Metric", short_type_name::<M>(), name)
}

/// `[Batcher]{Batcher}.batch`.
pub fn batcher<B>() -> String {
    hook("Batcher", short_type_name::<B>(), "batch")
}

/// The handles of a fit, made once before its loop.
#[cfg(feature = "train")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct FitActions {
    pub(crate) strategy_setup: Action,
    pub(crate) teardown: Action,
    pub(crate) on_fit_start: Action,
    pub(crate) on_fit_end: Action,
    pub(crate) run_training_epoch: Action,
    pub(crate) run_validation_epoch: Action,
    pub(crate) run_training_batch: Action,
    pub(crate) train_dataloader: Action,
    pub(crate) val_dataloader: Action,
    pub(crate) train_next: Action,
    pub(crate) val_next: Action,
    pub(crate) training_step: Action,
    pub(crate) validation_step: Action,
    pub(crate) model_to_device: Action,
    pub(crate) accumulate: Action,
    pub(crate) optimizer_update: Action,
    pub(crate) lr_scheduler_step: Action,
    pub(crate) save_checkpoint: Action,
    pub(crate) flush_events: Action,
    pub(crate) early_stopping: Action,
    pub(crate) barrier: Action,
    pub(crate) on_train_epoch_start: Action,
    pub(crate) on_train_batch_end: Action,
    pub(crate) on_train_epoch_end: Action,
    pub(crate) on_validation_start: Action,
    pub(crate) on_validation_batch_end: Action,
    pub(crate) on_validation_end: Action,
    pub(crate) on_epoch_end: Action,
}

#[cfg(feature = "train")]
impl FitActions {
    pub(crate) fn new<M>(strategy_name: &str) -> Self {
        let event = |hook| Action::new(&event(hook));
        Self {
            strategy_setup: Action::new(&strategy(strategy_name, "setup")),
            teardown: Action::new(TEARDOWN),
            on_fit_start: event("on_fit_start"),
            on_fit_end: event("on_fit_end"),
            run_training_epoch: Action::new(RUN_TRAINING_EPOCH),
            run_validation_epoch: Action::new(RUN_VALIDATION_EPOCH),
            run_training_batch: Action::new(RUN_TRAINING_BATCH),
            train_dataloader: Action::new(TRAIN_DATALOADER),
            val_dataloader: Action::new(VAL_DATALOADER),
            train_next: Action::new(TRAIN_DATALOADER_NEXT),
            val_next: Action::new(VAL_NEXT),
            training_step: Action::new(&training_step::<M>()),
            validation_step: Action::new(&inference_step::<M>("validation_step")),
            model_to_device: Action::new(&strategy(strategy_name, "model_to_device")),
            accumulate: Action::new(ACCUMULATE_GRADIENTS),
            optimizer_update: Action::new(OPTIMIZER_UPDATE),
            lr_scheduler_step: Action::new(LR_SCHEDULER_STEP),
            save_checkpoint: Action::new(SAVE_CHECKPOINT),
            flush_events: Action::new(FLUSH_EVENTS),
            early_stopping: Action::new(EARLY_STOPPING),
            barrier: Action::new(BARRIER),
            on_train_epoch_start: event("on_train_epoch_start"),
            on_train_batch_end: event("on_train_batch_end"),
            on_train_epoch_end: event("on_train_epoch_end"),
            on_validation_start: event("on_validation_start"),
            on_validation_batch_end: event("on_validation_batch_end"),
            on_validation_end: event("on_validation_end"),
            on_epoch_end: event("on_epoch_end"),
        }
    }
}
