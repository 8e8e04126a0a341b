//! Checks that strategies and gradient checkpointing are kept.

#![allow(clippy::unwrap_used)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::InMemDataset;
use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::{
    ExecutionStrategy, Learner, MultiDeviceOptim, SupervisedLearningStrategy, SupervisedTraining,
    SupervisedTrainingEventProcessor, TrainLoader, TrainingComponents, TrainingStrategy,
    ValidLoader,
};
use common::{
    Items, Mlp, Recorder, alone, hooked_loader, interrupt, items, learner, learner_on, loader,
    training, training_on,
};
use mlprof_burn::prelude::*;
use mlprof_burn::{INTERRUPTED, ProfiledTraining};
use mlprof_core::Stage;

fn is_checkpointing(device: &Device) -> bool {
    let expected = Device::flex().autodiff().gradient_checkpointing();
    device.gradient_checkpointing_strategy() == expected.gradient_checkpointing_strategy()
}

/// Returns the device on which training batches were created.
fn training_device(launch: impl FnOnce(burn::train::SupervisedTraining<Mlp>)) -> Device {
    let directory = tempfile::tempdir().unwrap();
    let batcher = Items::default();
    let loader =
        DataLoaderBuilder::new(batcher.clone()).batch_size(16).build(InMemDataset::new(items(100)));
    launch(training_on(directory.path(), loader).num_epochs(1));
    batcher.devices.lock().unwrap()[0].clone()
}

/// Returns a learner on a checkpointing device, because burn requires the model's device to
/// checkpoint too.
fn checkpointing_learner() -> Learner<Mlp> {
    learner_on(&Device::flex().autodiff().gradient_checkpointing(), 1e-2)
}

/// Returns a strategy with a device that does not checkpoint by itself.
fn plain_device() -> TrainingStrategy<Mlp> {
    TrainingStrategy::Default(ExecutionStrategy::SingleDevice(Device::flex()))
}

#[test]
fn gradient_checkpointing_after_the_profiler_is_kept() {
    let _alone = alone();
    let device = training_device(|training| {
        let training = training.profiler(Recorder::new()).gradient_checkpointing();
        training.with_training_strategy(plain_device()).launch(checkpointing_learner()).unwrap();
    });
    assert!(is_checkpointing(&device));
    let device = training_device(|training| {
        let training = training.profiler(Recorder::new());
        training.with_training_strategy(plain_device()).launch(learner(1e-2)).unwrap();
    });
    assert!(device.is_autodiff() && !is_checkpointing(&device));
}

/// Checks that the model's device reveals a checkpointing request from before the profiler. burn
/// rejects gradient checkpointing for a model on a device without it.
#[test]
fn gradient_checkpointing_before_the_profiler_is_kept() {
    let _alone = alone();
    for strategy in [None, Some(plain_device())] {
        let device = training_device(|training| {
            let training = training.gradient_checkpointing().profiler(Recorder::new());
            match strategy {
                None => training.launch(checkpointing_learner()).unwrap(),
                Some(strategy) => training
                    .with_training_strategy(strategy)
                    .launch(checkpointing_learner())
                    .unwrap(),
            };
        });
        assert!(is_checkpointing(&device));
    }
    let directory = tempfile::tempdir().unwrap();
    let refused = catch_unwind(AssertUnwindSafe(|| {
        training(directory.path()).gradient_checkpointing().launch(learner(1e-2));
    }));
    let message = *refused.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("checkpointing strategy mismatch"), "{message}");
}

#[test]
fn without_a_profiler_burn_runs_with_all_settings() {
    let _alone = alone();
    let before = training_device(|training| {
        let training = training.gradient_checkpointing().with_training_strategy(plain_device());
        training.profiler(None::<&str>).launch(checkpointing_learner()).unwrap();
    });
    assert!(is_checkpointing(&before));
    let after = training_device(|training| {
        let training = training.profiler("none").gradient_checkpointing();
        training.with_training_strategy(plain_device()).launch(checkpointing_learner()).unwrap();
    });
    assert!(is_checkpointing(&after));
}

/// Counts its batches and learns nothing.
#[derive(Default)]
struct Looker {
    batches: AtomicUsize,
}

impl SupervisedLearningStrategy<Mlp> for Looker {
    fn fit(
        &self,
        components: TrainingComponents<Mlp>,
        learner: Learner<Mlp>,
        train: TrainLoader<Mlp>,
        _valid: ValidLoader<Mlp>,
        _starting_epoch: usize,
    ) -> (Mlp, SupervisedTrainingEventProcessor<Mlp>) {
        self.batches.fetch_add(train.iter().count(), Ordering::Relaxed);
        (learner.model(), components.event_processor)
    }
}

#[test]
fn a_custom_strategy_runs_with_its_loaders_measured() {
    let _alone = alone();
    for profiler in [None, Some(Recorder::new())] {
        let directory = tempfile::tempdir().unwrap();
        let looker = Arc::new(Looker::default());
        let training = training(directory.path());
        let training = match &profiler {
            None => training.profiler(None::<&str>),
            Some(recorder) => training.profiler(recorder.clone()),
        };
        let strategy = TrainingStrategy::Custom(looker.clone());
        let training = training.with_training_strategy(strategy).measure_event_thread(true);
        training.launch(learner(1e-2)).unwrap();
        assert_eq!(looker.batches.load(Ordering::Relaxed), 7);
        let Some(recorder) = profiler else { continue };
        recorder.assert_balanced();
        assert_eq!(recorder.calls("[_TrainingEpochLoop].train_dataloader_next"), 8);
        assert_eq!(recorder.calls("[Strategy]Custom.train"), 1);
        assert_eq!(recorder.calls("setup"), 1);
        assert_eq!(recorder.calls("[EventProcessor].process_train"), 2, "its start and its end");
        assert_eq!(recorder.reports(), 1);
    }
}

/// Checks that a training created with this crate's type keeps a strategy that is set before the
/// profiler.
#[test]
fn a_strategy_before_the_profiler_is_kept() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (looker, recorder) = (Arc::new(Looker::default()), Recorder::new());
    let (train, valid) = (loader(items(100)), loader(items(32)));
    let training = ProfiledTraining::new(directory.path(), train, valid)
        .with_application_logger(None)
        .with_training_strategy(TrainingStrategy::Custom(looker.clone()))
        .num_epochs(2)
        .profiler("smiple");
    let error = training.launch(learner(1e-2)).err();
    assert!(error.unwrap().to_string().contains("\"smiple\""));
    let (train, valid) = (loader(items(100)), loader(items(32)));
    let training = ProfiledTraining::new(directory.path(), train, valid)
        .with_application_logger(None)
        .with_training_strategy(TrainingStrategy::Custom(looker.clone()))
        .profiler(recorder.clone());
    training.launch(learner(1e-2)).unwrap();
    assert_eq!(looker.batches.load(Ordering::Relaxed), 7);
    assert_eq!(recorder.calls("[Strategy]Custom.train"), 1);
    assert_eq!((recorder.stages(), recorder.reports()), (vec![Stage::Fit], 1));
}

/// Returns the notes about the loop in the report of a profiled training.
fn loops(launch: impl FnOnce(SupervisedTraining<Mlp>, Arc<Recorder>)) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    launch(training(directory.path()).num_epochs(1), recorder.clone());
    let mut notes = recorder.notes();
    notes.retain(|note| note.starts_with("loop: "));
    notes
}

#[test]
fn the_header_names_the_loop_that_ran() {
    let _alone = alone();
    let of = |strategy: Option<TrainingStrategy<Mlp>>| {
        loops(|training, recorder| {
            let mut training = training.profiler(recorder);
            if let Some(strategy) = strategy {
                training = training.with_training_strategy(strategy);
            }
            training.launch(learner(1e-2)).unwrap();
        })
    };
    let single = ["loop: burn's single-device loop on Flex(Cpu)"];
    assert_eq!(of(None), single);
    assert_eq!(of(Some(plain_device())), single);
    let multi =
        |optim| TrainingStrategy::Default(ExecutionStrategy::MultiDevice(devices(2), optim));
    let [main] = &of(Some(multi(MultiDeviceOptim::OptimMainDevice)))[..] else { panic!() };
    assert!(main.starts_with("loop: burn's loop on 2 devices, optimizer on the main one: Flex"));
    let [sharded] = &of(Some(multi(MultiDeviceOptim::OptimSharded)))[..] else { panic!() };
    assert!(sharded.starts_with("loop: burn's loop on 2 devices, optimizer sharded: Flex"));
    let own = || TrainingStrategy::Custom(Arc::new(Looker::default()));
    let [custom] = &of(Some(own()))[..] else { panic!() };
    assert!(custom.starts_with("loop: the program's own training strategy."), "{custom}");
    // burn's type does not expose its strategy. The note states that burn's loop ran instead.
    let lost = loops(|training, recorder| {
        let training = training.with_training_strategy(own()).profiler(recorder);
        training.launch(learner(1e-2)).unwrap();
    });
    assert_eq!(lost, single);
}

/// Checks that a profiled strategy is kept regardless of the order of calls.
#[test]
fn a_strategy_that_is_profiled_itself_is_not_lost() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (looker, recorder) = (Arc::new(Looker::default()), Recorder::new());
    let strategy: TrainingStrategy<Mlp> = TrainingStrategy::Custom(looker.clone());
    let training: SupervisedTraining<Mlp> = training(directory.path())
        .with_training_strategy(strategy.profiler(recorder.clone()).unwrap())
        .label("set after it");
    training.launch(learner(1e-2));
    assert_eq!(looker.batches.load(Ordering::Relaxed), 7);
    recorder.assert_balanced();
    assert_eq!((recorder.stages(), recorder.reports()), (vec![Stage::Fit], 1));
    assert_eq!(recorder.calls("[Strategy]Custom.train"), 1);
    assert_eq!(recorder.calls("[_TrainingEpochLoop].train_dataloader_next"), 8);
}

#[test]
fn burns_strategies_learn_the_same_when_they_are_profiled_themselves() {
    let _alone = alone();
    let strategy = || ExecutionStrategy::MultiDevice(devices(2), MultiDeviceOptim::OptimMainDevice);
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let profiled = TrainingStrategy::Default(strategy()).profiler(recorder.clone()).unwrap();
    let result = training(directory.path())
        .metrics((LossMetric::new(),))
        .with_training_strategy(profiled)
        .launch(learner(1e-2));
    assert_eq!(result.model.weights(), weights(None, strategy()));
    recorder.assert_balanced();
    assert_eq!(recorder.calls("[Strategy]MultiDevice.setup"), 1);
    assert_eq!(recorder.calls("[TrainStep]Mlp.training_step"), 16);
    let none = TrainingStrategy::<Mlp>::Default(strategy()).profiler(None::<&str>).unwrap();
    assert!(matches!(none, TrainingStrategy::Default(_)), "burn's own without a profiler");
    assert!(none.profiler("smiple").is_err());
}

#[test]
fn a_strategy_that_is_profiled_itself_has_settings_of_its_own() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let settings =
        StageSettings::new().on_interrupt(Interrupt::Return).log_dir(directory.path().join("logs"));
    let strategy = ExecutionStrategy::SingleDevice(devices(1).remove(0));
    let profiler = SimpleProfiler::new().filename("run");
    let strategy = TrainingStrategy::Default(strategy).profiler_with(profiler, settings).unwrap();
    let result = training_on(directory.path(), hooked_loader(20, interrupt))
        .with_training_strategy(strategy)
        .launch(learner(1e-2));
    assert_eq!(result.interrupted.unwrap().reason.as_deref(), Some(INTERRUPTED));
    let report = std::fs::read_to_string(directory.path().join("logs/fit-run.txt")).unwrap();
    assert!(report.contains("loop: burn's single-device loop on Flex"), "{report}");
}

fn devices(number: usize) -> Vec<Device> {
    vec![Device::flex().autodiff(); number]
}

fn weights(profiler: Option<Arc<Recorder>>, strategy: ExecutionStrategy) -> Vec<u32> {
    let directory = tempfile::tempdir().unwrap();
    let training = training(directory.path()).metrics((LossMetric::new(),));
    let strategy = TrainingStrategy::Default(strategy);
    let result = match profiler {
        None => training.with_training_strategy(strategy).launch(learner(1e-2)),
        Some(recorder) => training
            .profiler(recorder)
            .with_training_strategy(strategy)
            .launch(learner(1e-2))
            .unwrap(),
    };
    assert!(result.error.is_none());
    result.model.weights()
}

#[test]
fn several_devices_learn_the_same_with_a_profiler() {
    let _alone = alone();
    for optim in [MultiDeviceOptim::OptimMainDevice, MultiDeviceOptim::OptimSharded] {
        let strategy = || ExecutionStrategy::MultiDevice(devices(2), optim);
        let recorder = Recorder::new();
        assert_eq!(weights(Some(recorder.clone()), strategy()), weights(None, strategy()));
        recorder.assert_balanced();
        assert_eq!(recorder.calls("[Strategy]MultiDevice.setup"), 1);
        // 50 items are 4 batches on each of two devices, in each of two epochs.
        assert_eq!(recorder.calls("[TrainStep]Mlp.training_step"), 16, "{optim:?}");
        assert_eq!(recorder.threads("[TrainStep]Mlp.training_step"), 4, "two in each epoch");
        assert_eq!(recorder.calls("Optimizer.step"), 8);
        assert_eq!(recorder.calls("run_training_batch"), 8, "no empty one");
        assert_eq!(recorder.parent("Optimizer.step"), Some("run_training_batch"));
        let next = "[_TrainingEpochLoop].train_dataloader_next";
        assert_eq!(recorder.parent(next), Some("run_training_epoch"), "it is not in the batch");
        // One more call per device and epoch finds the end.
        assert_eq!(recorder.calls("[_TrainingEpochLoop].train_dataloader_next"), 20);
        assert_eq!(recorder.calls("[Callback]EventProcessor.on_train_batch_end"), 16);
    }
}

#[test]
fn a_list_of_one_device_is_a_single_device() {
    let _alone = alone();
    let strategy = || ExecutionStrategy::MultiDevice(devices(1), MultiDeviceOptim::OptimMainDevice);
    let recorder = Recorder::new();
    assert_eq!(weights(Some(recorder.clone()), strategy()), weights(None, strategy()));
    assert_eq!(recorder.calls("[Strategy]SingleDevice.setup"), 1);
    let single = ExecutionStrategy::SingleDevice(devices(1).remove(0));
    assert_eq!(weights(Some(Recorder::new()), single), weights(None, strategy()));
}
