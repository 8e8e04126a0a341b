//! Names of all measured actions.
//!
//! The names follow Lightning's patterns:
//!
//! - A bare name stands for the trainer's own work.
//! - `[Kind]Type.hook` stands for a method of a replaceable component, with the short name of its
//!   Rust type.
//!
//! Names are interned before a loop starts. The loop then uses 4-byte handles and does not allocate
//! for profiling. In this table, `event` is the thread on which burn runs metrics and the renderer.
//!
//! | name | measured work | thread |
//! |---|---|---|
//! | `setup` | time from `launch` to the start of the fit: log files, event thread, loading a checkpoint | loop |
//! | `[Strategy]….setup` | setting the loaders' device and moving the model to it | loop |
//! | `[Callback]EventProcessor.….` | sending an event to the event thread, including waiting while its queue is full | loop |
//! | `[EventProcessor].process_…` | all work on the event thread, see [`measure_event_thread`](crate::ProfiledTraining::measure_event_thread) | event |
//! | `[Metric]….update`, `….compute` | one metric | event |
//! | `[MetricsRenderer].update`, `.progress` | the renderer | event |
//! | `[_TrainingEpochLoop].train_dataloader_next` | waiting for a batch; the last call finds the end | loop |
//! | `run_training_batch` | one batch without fetching it, which contains the next rows; with several devices from the time at which all have a batch | loop |
//! | `[TrainStep]….training_step` | burn's `TrainStep::step`: forward *and* backward | loop or worker |
//! | `backward` | only backward, if the model calls [`profile_backward`](crate::ProfileBackwardExt) | loop or worker |
//! | `accumulate_gradients` | accumulating gradients over batches or devices | loop |
//! | `lr_scheduler_step` | a step of the learning-rate scheduler | loop |
//! | `Optimizer.step` | the optimizer's update of the parameters | loop |
//! | `[InferenceStep]….validation_step` | burn's `InferenceStep::step` | loop |
//! | `flush_events` | waiting for the event thread before a checkpoint or early stopping; with burn 0.23 also at the end of each split | loop |
//! | `save_checkpoint` | creating the records and sending them to the writer threads | loop |
//! | `teardown` | end of the loop: waiting for checkpoints and dropping loaders | loop |

#[cfg(feature = "train")]
use mlprof_core::Action;
pub use mlprof_core::names::{
    BACKWARD, LR_SCHEDULER_STEP, OPTIMIZER_UPDATE, RUN_TRAINING_BATCH, RUN_TRAINING_EPOCH,
    SAVE_CHECKPOINT, TEST_NEXT, TRAIN_DATALOADER_NEXT, VAL_NEXT,
};
use mlprof_core::names::{hook, short_type_name};

/// Time from `launch` to the start of the fit.
pub const SETUP: &str = "setup";
/// Release of the loop's resources; includes waiting until checkpoints are on disk.
pub const TEARDOWN: &str = "teardown";
/// All validation batches of one epoch, including fetching them.
pub const RUN_VALIDATION_EPOCH: &str = "run_validation_epoch";
/// Creation of the iterator over the training loader.
pub const TRAIN_DATALOADER: &str = "train_dataloader";
/// Creation of the iterator over the validation loader.
pub const VAL_DATALOADER: &str = "val_dataloader";
/// Creation of the iterator over a test loader.
pub const TEST_DATALOADER: &str = "test_dataloader";
/// Gradient accumulation over batches or devices.
pub const ACCUMULATE_GRADIENTS: &str = "accumulate_gradients";
/// Wait until the event thread has processed all pending events.
pub const FLUSH_EVENTS: &str = "flush_events";
/// Early stopping decision.
pub const EARLY_STOPPING: &str = "[Callback]EarlyStopping.should_stop";
/// Wait for the other devices in a distributed training.
pub const BARRIER: &str = "[Strategy]DistributedDataParallel.barrier";
/// The whole `train` method of a custom strategy.
pub const CUSTOM_STRATEGY: &str = "[Strategy]Custom.train";
/// A whole evaluation with all its test sets.
pub const RUN_TEST_EVALUATION: &str = "run_test_evaluation";
/// One test batch after it was fetched: the step, and passing its output to the metrics.
pub const RUN_TEST_BATCH: &str = "run_test_batch";
/// Processing of a training event on the event thread.
pub const PROCESS_TRAIN: &str = "[EventProcessor].process_train";
/// Processing of a validation event on the event thread.
pub const PROCESS_VALID: &str = "[EventProcessor].process_valid";
/// Passing a metric's new value to the renderer.
pub const RENDERER_UPDATE: &str = "[MetricsRenderer].update";
/// Drawing the progress by the renderer.
pub const RENDERER_PROGRESS: &str = "[MetricsRenderer].progress";
/// A call of a progress logger.
pub const PROGRESS_LOGGER: &str = "[ProgressLogger].progress";

/// Returns `[Callback]EventProcessor.{hook}`, the action of passing an event to metrics and
/// renderer.
pub fn event(name: &str) -> String {
    hook("Callback", "EventProcessor", name)
}

/// Returns `[Strategy]{strategy}.{hook}`.
pub fn strategy(strategy: &str, name: &str) -> String {
    hook("Strategy", strategy, name)
}

/// Returns `[TrainStep]{Model}.training_step`.
pub fn training_step<M>() -> String {
    hook("TrainStep", short_type_name::<M>(), "training_step")
}

/// Returns `[InferenceStep]{Model}.{hook}`, where the hook is `validation_step` or `test_step`.
pub fn inference_step<M>(name: &str) -> String {
    hook("InferenceStep", short_type_name::<M>(), name)
}

/// Returns `[Metric]{Metric}.{hook}`, where the hook is `update` or `compute`.
pub fn metric<M>(name: &str) -> String {
    hook("Metric", short_type_name::<M>(), name)
}

/// Returns `[Batcher]{Batcher}.batch`.
pub fn batcher<B>() -> String {
    hook("Batcher", short_type_name::<B>(), "batch")
}

/// Action handles of a fit, created once before the loop.
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
