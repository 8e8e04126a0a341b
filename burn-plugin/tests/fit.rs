//! Checks that a profiled fit behaves like burn's own fit, and that every part is measured.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::{
    ExecutionStrategy, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining,
    TrainingStrategy,
};
use common::{Mlp, Recorder, alone, learner, training};
use mlprof_burn::prelude::*;
use mlprof_core::Stage;

/// Number of times an epoch waits for the event thread. From burn 0.23 on, it waits before and
/// after the event that ends a split.
const FLUSHES: usize = if cfg!(burn_0_23) { 4 } else { 0 };

fn weights(profiled: bool, accumulation: Option<usize>) -> Vec<u32> {
    let directory = tempfile::tempdir().unwrap();
    let mut training = training(directory.path()).metrics((LossMetric::new(),));
    if let Some(accumulation) = accumulation {
        training = training.grads_accumulation(accumulation);
    }
    let result = if profiled {
        training.profiler(Recorder::new()).launch(learner(1e-2)).unwrap()
    } else {
        training.launch(learner(1e-2))
    };
    assert!(result.error.is_none() && result.interrupted.is_none());
    result.model.weights()
}

#[test]
fn weights_after_two_epochs_are_equal_to_the_bit() {
    let _alone = alone();
    let plain = weights(false, None);
    assert_eq!(plain, weights(false, None), "the training itself must be repeatable");
    assert_eq!(plain, weights(true, None));
    let accumulated = weights(false, Some(3));
    assert_ne!(plain, accumulated, "accumulation must make a difference");
    assert_eq!(accumulated, weights(true, Some(3)));
}

#[test]
fn everything_is_counted_exactly() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let training =
        training(directory.path()).profiler(recorder.clone()).metrics((LossMetric::new(),));
    training.launch(learner(1e-2)).unwrap();

    recorder.assert_balanced();
    assert_eq!(recorder.reports(), 1);
    assert_eq!(recorder.stages(), [Stage::Fit]);
    let (epochs, train, valid) = (2, 7 * 2, 2 * 2);
    let mut expected = BTreeMap::from([
        ("setup", 1),
        ("[Callback]EventProcessor.on_fit_start", 1),
        ("[Strategy]SingleDevice.setup", 1),
        ("[Callback]EventProcessor.on_train_epoch_start", epochs),
        ("run_training_epoch", epochs),
        ("train_dataloader", epochs),
        ("[_TrainingEpochLoop].train_dataloader_next", train + epochs),
        ("run_training_batch", train),
        ("[TrainStep]Mlp.training_step", train),
        ("backward", train),
        ("lr_scheduler_step", train),
        ("Optimizer.step", train),
        ("[Callback]EventProcessor.on_train_batch_end", train),
        ("[Callback]EventProcessor.on_train_epoch_end", epochs),
        ("[Callback]EventProcessor.on_validation_start", epochs),
        ("run_validation_epoch", epochs),
        ("val_dataloader", epochs),
        ("[_EvaluationLoop].val_next", valid + epochs),
        ("[InferenceStep]Mlp.validation_step", valid),
        ("[Callback]EventProcessor.on_validation_batch_end", valid),
        ("[Callback]EventProcessor.on_validation_end", epochs),
        ("[Callback]EventProcessor.on_epoch_end", epochs),
        ("teardown", 1),
        ("[Callback]EventProcessor.on_fit_end", 1),
        ("[Metric]LossMetric.update", train + valid),
        ("[Metric]LossMetric.compute", epochs + epochs),
    ]);
    if cfg!(burn_0_23) {
        expected.insert("flush_events", FLUSHES * epochs);
    }
    assert_eq!(recorder.all_calls(), expected);
}

#[test]
fn actions_nest_as_documented_and_metrics_have_a_thread_of_their_own() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let training = training(directory.path()).metrics((LossMetric::new(),));
    let training = training.profiler(recorder.clone()).measure_event_thread(true);
    training.launch(learner(1e-2)).unwrap();
    assert_eq!(recorder.parent("backward"), Some("[TrainStep]Mlp.training_step"));
    assert_eq!(recorder.parent("[TrainStep]Mlp.training_step"), Some("run_training_batch"));
    assert_eq!(recorder.parent("Optimizer.step"), Some("run_training_batch"));
    assert_eq!(recorder.parent("run_training_batch"), Some("run_training_epoch"));
    assert_eq!(recorder.parent("run_training_epoch"), None);
    let enqueue = "[Callback]EventProcessor.on_train_batch_end";
    assert_eq!(recorder.parent(enqueue), Some("run_training_epoch"));
    assert!(recorder.shares_a_thread(enqueue, "Optimizer.step"));
    assert!(!recorder.shares_a_thread("[EventProcessor].process_train", "Optimizer.step"));
    let (epochs, train, valid) = (2, 14, 4);
    let events = 1 + epochs + train + epochs + epochs + 1;
    assert_eq!(recorder.calls("[EventProcessor].process_train"), events);
    assert_eq!(recorder.calls("[EventProcessor].process_valid"), epochs + valid + epochs);
}

#[test]
fn the_whole_event_thread_is_measured_on_request() {
    let _alone = alone();
    let calls = |is_measured: bool| {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::new();
        let training = training(directory.path()).profiler(recorder.clone());
        let training = training.metrics((LossMetric::new(),)).measure_event_thread(is_measured);
        training.launch(learner(1e-2)).unwrap();
        assert!(!recorder.shares_a_thread("[Metric]LossMetric.update", "Optimizer.step"));
        recorder.calls("[EventProcessor].process_valid")
    };
    assert_eq!((calls(false), calls(true)), (0, 8));
}

#[test]
fn no_thread_is_put_before_burns_own_unless_asked_for() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let training = training(directory.path()).metrics((LossMetric::new(),));
    training.profiler(recorder.clone()).launch(learner(1e-2)).unwrap();
    assert_eq!(recorder.calls("[EventProcessor].process_train"), 0);
    assert_eq!(recorder.calls("[EventProcessor].process_valid"), 0);
}

/// Builds a training like user code that does not use this crate's types.
fn configured(directory: &Path, recorder: Option<Arc<Recorder>>) -> SupervisedTraining<Mlp> {
    let training = training(directory);
    match recorder {
        Some(recorder) => {
            let device = ExecutionStrategy::SingleDevice(Device::flex());
            let strategy = TrainingStrategy::Default(device).profiler(recorder).unwrap();
            training.with_training_strategy(strategy).metrics((LossMetric::new(),))
        }
        None => training.metrics((LossMetric::new(),)),
    }
}

#[test]
fn a_profiled_training_keeps_its_type() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let result = configured(directory.path(), Some(recorder.clone())).launch(learner(1e-2));
    recorder.assert_balanced();
    assert_eq!(recorder.stages(), [Stage::Fit]);
    assert_eq!(recorder.reports(), 1);
    assert_eq!(recorder.calls("run_training_batch"), 14);
    assert_eq!(recorder.calls("[InferenceStep]Mlp.validation_step"), 4);
    assert_eq!(result.model.weights(), weights(false, None));
    let result = configured(directory.path(), None).launch(learner(1e-2));
    assert_eq!(result.model.weights(), weights(false, None));
    assert_eq!(recorder.reports(), 1);
}

#[test]
fn accumulated_gradients_reach_the_optimizer_every_third_batch_and_at_the_end() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let training = training(directory.path()).grads_accumulation(3);
    training.profiler(recorder.clone()).launch(learner(1e-2)).unwrap();
    assert_eq!(recorder.calls("accumulate_gradients"), 14);
    assert_eq!(recorder.calls("Optimizer.step"), 6, "after batches 3, 6 and 7 of each epoch");
    assert_eq!(recorder.calls("lr_scheduler_step"), 6);
}

#[test]
fn early_stopping_still_stops() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let condition = StoppingCondition::NoImprovementSince { n_epochs: 1 };
    let early_stopping = MetricEarlyStoppingStrategy::new(
        &LossMetric::new(),
        Aggregate::Mean,
        Direction::Lowest,
        Split::Valid,
        condition,
    );
    let training = training(directory.path())
        .metrics((LossMetric::new(),))
        .early_stopping(early_stopping)
        .profiler(recorder.clone())
        .num_epochs(10);
    training.launch(learner(0.0)).unwrap();
    recorder.assert_balanced();
    assert_eq!(recorder.calls("run_training_epoch"), 2, "the second is no better than the first");
    assert_eq!(recorder.calls("[Callback]EarlyStopping.should_stop"), 2);
    assert_eq!(recorder.calls("flush_events"), (FLUSHES + 1) * 2);
    assert_eq!(recorder.reports(), 1);
}

#[test]
fn training_resumes_from_a_checkpoint_with_equal_weights() {
    let _alone = alone();
    let resume = |profiled: bool| {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::new();
        let training = || {
            training(directory.path()).metrics((LossMetric::new(),)).with_default_checkpointers()
        };
        let (first, second) = (training().num_epochs(1), training().checkpoint(1));
        if profiled {
            first.profiler(recorder.clone()).launch(learner(1e-2)).unwrap();
            assert_eq!(recorder.calls("save_checkpoint"), 1);
            let result = second.profiler(recorder.clone()).launch(learner(1e-2)).unwrap();
            recorder.assert_balanced();
            assert_eq!(recorder.calls("run_training_epoch"), 2, "one in each run");
            assert_eq!(recorder.calls("save_checkpoint"), 2);
            assert_eq!(recorder.reports(), 2);
            result.model.weights()
        } else {
            first.launch(learner(1e-2));
            second.launch(learner(1e-2)).model.weights()
        }
    };
    let resumed = resume(true);
    assert_eq!(resumed, resume(false));
    assert_eq!(resumed, weights(true, None), "as if it had never been interrupted");
}

/// Checks that an interrupter ends the fit. From burn 0.23 on, the stop is also noticed before a
/// batch is fetched.
#[test]
fn an_interrupter_ends_the_fit_at_the_next_batch() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let training = training(directory.path()).profiler(recorder.clone());
    training.interrupter().stop(Some("enough"));
    let result = training.launch(learner(1e-2)).unwrap();
    recorder.assert_balanced();
    assert_eq!(recorder.calls("run_training_batch"), usize::from(!cfg!(burn_0_23)));
    assert_eq!(recorder.calls("run_validation_epoch"), 0);
    assert_eq!(result.interrupted.unwrap().reason.as_deref(), Some("enough"));
    assert_eq!(recorder.reports(), 1);
}

#[test]
fn a_typo_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let chains = [
        training(directory.path()).profiler("smiple").num_epochs(1),
        training(directory.path()).num_epochs(1).profiler("smiple"),
    ];
    let [error, same] = chains.map(|training| training.launch(learner(1e-2)).err().unwrap());
    assert_eq!(error, same);
    assert!(
        error.to_string().contains(
            "\"simple\", \"advanced\", \"tensor\", \"pytorch\", \"numerics\", \"nvtx\", \"none\""
        ),
        "{error}"
    );
}
