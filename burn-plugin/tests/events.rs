//! Checks that a profiled fit sends the same events as burn's own fit, with the same numbers in the
//! same order.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::data::dataloader::DataLoader;
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use burn::tensor::distributed::{DistributedConfig, DistributedContext, ReduceOperation};
use burn::train::metric::LossMetric;
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::{
    EvaluatorBuilder, ExecutionStrategy, Interrupter, MetricEarlyStoppingStrategy,
    MultiDeviceOptim, StoppingCondition, SupervisedTraining, TrainingStrategy,
};
use common::event_log::EventLog;
use common::local::{Local, learner};
use common::{Batch, Recorder, alone, hooked_loader, items, loader};
use mlprof_burn::prelude::*;

/// A training as a user configures it, and the outcome of its fit.
#[derive(Clone)]
struct Setup {
    train: Loader,
    valid: Loader,
    accumulation: Option<usize>,
    devices: Devices,
    checkpoints: bool,
    stops_early: bool,
    stops_before: bool,
}

#[derive(Clone, Copy)]
enum Devices {
    One,
    Two(MultiDeviceOptim),
    TwoDistributed,
}

/// Creates a loader, which may stop the training.
type Loader = Arc<dyn Fn(&Interrupter) -> Arc<dyn DataLoader<Batch>>>;

struct Outcome {
    events: Vec<String>,
    weights: Vec<u32>,
    interrupted: Option<String>,
    error: Option<String>,
}

impl Outcome {
    /// Returns the number of events that begin with `start`.
    fn count(&self, start: &str) -> usize {
        self.events.iter().filter(|line| line.starts_with(start)).count()
    }
}

impl Setup {
    fn new() -> Self {
        Self {
            train: Arc::new(|_| loader(items(100))),
            valid: Arc::new(|_| loader(items(32))),
            accumulation: None,
            devices: Devices::One,
            checkpoints: false,
            stops_early: false,
            stops_before: false,
        }
    }

    fn run(&self, recorder: Option<Arc<Recorder>>) -> Outcome {
        let directory = tempfile::tempdir().unwrap();
        let (log, interrupter) = (EventLog::default(), Interrupter::new());
        let (train, valid) = ((self.train)(&interrupter), (self.valid)(&interrupter));
        let mut training: SupervisedTraining<Local> =
            SupervisedTraining::new(directory.path(), train, valid)
                .with_interrupter(interrupter.clone())
                .num_epochs(2)
                .with_application_logger(None)
                .metrics((LossMetric::new(),))
                .with_progress_logger(log.clone());
        if let Some(accumulation) = self.accumulation {
            training = training.grads_accumulation(accumulation);
        }
        if self.checkpoints {
            training = training.with_default_checkpointers();
        }
        if self.stops_early {
            training = training.num_epochs(5).early_stopping(MetricEarlyStoppingStrategy::new(
                &LossMetric::new(),
                Aggregate::Mean,
                Direction::Lowest,
                Split::Valid,
                StoppingCondition::NoImprovementSince { n_epochs: 1 },
            ));
        }
        if self.stops_before {
            interrupter.stop(Some("before"));
        }
        let two = vec![Device::flex().autodiff(); 2];
        let strategy: TrainingStrategy<Local> = TrainingStrategy::Default(match self.devices {
            Devices::One => ExecutionStrategy::SingleDevice(Device::flex()),
            Devices::Two(optim) => ExecutionStrategy::MultiDevice(two, optim),
            Devices::TwoDistributed => {
                // The devices do not communicate, because flex has no collective operations. Each
                // worker learns independently.
                let context = DistributedContext::init(
                    Vec::new(),
                    DistributedConfig { all_reduce_op: ReduceOperation::Mean },
                );
                ExecutionStrategy::DistributedDataParallel { devices: two, context }
            }
        });
        let rate = if self.stops_early { 0.0 } else { 1e-2 };
        let result = training
            .with_training_strategy(strategy.profiler(recorder).unwrap())
            .launch(learner(rate));
        Outcome {
            events: log.lines(),
            weights: result.model.0.weights(),
            interrupted: result.interrupted.map(|interruption| interruption.reason.unwrap()),
            error: result.error.map(|error| error.to_string()),
        }
    }

    /// Runs the training with and without a profiler, and asserts that both runs match. Returns the
    /// recorder and the profiled outcome.
    #[track_caller]
    fn is_the_same_profiled(&self) -> (Arc<Recorder>, Outcome) {
        let recorder = Recorder::new();
        let (plain, profiled) = (self.run(None), self.run(Some(recorder.clone())));
        assert_eq!(self.comparable(&profiled), self.comparable(&plain));
        assert_eq!(profiled.interrupted, plain.interrupted);
        assert_eq!(profiled.error, plain.error);
        if !self.adds_up_in_any_order() {
            assert_eq!(profiled.weights, plain.weights);
        }
        recorder.assert_balanced();
        (recorder, profiled)
    }

    /// Returns the events that must be equal in both runs. When one of several workers stops, its
    /// peers may already have fetched their next batch, also in burn's own loop. The number of
    /// items at the end can therefore differ.
    fn comparable(&self, outcome: &Outcome) -> Vec<String> {
        let is_stopped = outcome.interrupted.is_some() || outcome.error.is_some();
        let mut events = outcome.events.clone();
        if is_stopped && matches!(self.devices, Devices::TwoDistributed) {
            let ends = events.iter_mut().filter(|line| line.starts_with("end: "));
            ends.for_each(|line| line.truncate("end".len()));
        }
        events
    }

    /// Returns `true` if the order of summation varies between runs. Each device's accumulated
    /// gradients are then added in the order in which the devices finish. Even burn's own loop is
    /// then not bit-reproducible.
    fn adds_up_in_any_order(&self) -> bool {
        matches!(self.devices, Devices::Two(MultiDeviceOptim::OptimMainDevice))
            && self.accumulation.is_some()
    }

    /// Returns this setup for all of burn's loops. From burn 0.23 on, distributed workers leave an
    /// epoch together, so that their events have a fixed order.
    fn on_all_loops(&self) -> Vec<Self> {
        let mut all = vec![
            Devices::One,
            Devices::Two(MultiDeviceOptim::OptimMainDevice),
            Devices::Two(MultiDeviceOptim::OptimSharded),
        ];
        if cfg!(burn_0_23) {
            all.push(Devices::TwoDistributed);
        }
        all.into_iter().map(|devices| Self { devices, ..self.clone() }).collect()
    }
}

/// Returns a loader that calls a hook before item `at` is read for the `time`th time.
fn loader_with(
    at: usize,
    time: usize,
    hook: impl Fn(&Interrupter) -> Result<(), DatasetError> + Clone + Send + Sync + 'static,
) -> Loader {
    Arc::new(move |interrupter| {
        let (interrupter, hook) = (interrupter.clone(), hook.clone());
        let times = AtomicUsize::new(0);
        hooked_loader(at, move || {
            let is_time = times.fetch_add(1, Ordering::Relaxed) + 1 == time;
            if is_time { hook(&interrupter) } else { Ok(()) }
        })
    })
}

fn stop(interrupter: &Interrupter) -> Result<(), DatasetError> {
    interrupter.stop(Some("by the loader"));
    Ok(())
}

fn fail(_: &Interrupter) -> Result<(), DatasetError> {
    Err(DatasetError::new(std::io::Error::other("bad disk")))
}

#[test]
fn a_training_to_its_end() {
    let _alone = alone();
    for setup in Setup::new().on_all_loops() {
        let (_, outcome) = setup.is_the_same_profiled();
        for start in ["start train", "start valid", "epoch "] {
            assert_eq!(outcome.count(start), 2, "{:?}", outcome.events);
        }
        let (_, checkpointed) = Setup { checkpoints: true, ..setup }.is_the_same_profiled();
        assert_eq!(checkpointed.weights, outcome.weights);
    }
}

#[test]
fn the_last_gradients_that_are_accumulated() {
    let _alone = alone();
    for setup in Setup::new().on_all_loops() {
        let (_, each) = setup.is_the_same_profiled();
        let setup = Setup { accumulation: Some(3), ..setup };
        let (recorder, outcome) = setup.is_the_same_profiled();
        assert_ne!(outcome.weights, each.weights, "accumulation makes a difference");
        // One device has 7 batches, two devices have 4 each. In a distributed training, each device
        // has its own optimizer.
        let windows = match setup.devices {
            Devices::One => 3,
            Devices::Two(_) => 2,
            Devices::TwoDistributed => 2 * 2,
        };
        assert_eq!(recorder.calls("Optimizer.step"), 2 * windows);
        let parent = if cfg!(burn_0_23) { "run_training_epoch" } else { "run_training_batch" };
        assert_eq!(recorder.parent("Optimizer.step"), Some(parent), "the last one");
    }
}

/// Runs one device with two batches and one with three.
#[test]
fn devices_whose_data_ends_at_different_batches() {
    let _alone = alone();
    for optim in [MultiDeviceOptim::OptimMainDevice, MultiDeviceOptim::OptimSharded] {
        let train: Loader = Arc::new(|_| loader(items(65)));
        let setup = Setup { train, devices: Devices::Two(optim), ..Setup::new() };
        let (recorder, _) = setup.is_the_same_profiled();
        assert_eq!(recorder.calls("run_training_batch"), 2 * 3);
        assert_eq!(recorder.calls("[TrainStep]Local.training_step"), 2 * 5);
    }
}

#[test]
fn a_distributed_training_to_its_end() {
    let _alone = alone();
    for stops_early in [false, true] {
        let setup = Setup { devices: Devices::TwoDistributed, stops_early, ..Setup::new() };
        let recorder = Recorder::new();
        let (mut plain, mut profiled) = (setup.run(None), setup.run(Some(recorder.clone())));
        plain.events.sort_unstable();
        profiled.events.sort_unstable();
        assert_eq!(profiled.events, plain.events);
        assert_eq!(profiled.weights, plain.weights);
        assert_eq!(recorder.calls("[TrainStep]Local.training_step"), 2 * 2 * 4);
        assert_eq!(recorder.calls("[InferenceStep]Local.validation_step"), 2 * 2);
        recorder.assert_balanced();
    }
}

#[test]
fn early_stopping() {
    let _alone = alone();
    for setup in Setup::new().on_all_loops() {
        let (_, outcome) = Setup { stops_early: true, ..setup }.is_the_same_profiled();
        assert_eq!(outcome.count("epoch "), 2, "{:?}", outcome.events);
    }
}

#[test]
fn a_stop_before_the_training() {
    let _alone = alone();
    for setup in Setup::new().on_all_loops() {
        let (recorder, outcome) = Setup { stops_before: true, ..setup }.is_the_same_profiled();
        assert_eq!(outcome.interrupted.as_deref(), Some("before"));
        let fetched = usize::from(!cfg!(burn_0_23));
        assert_eq!(recorder.calls("run_training_batch"), fetched, "before the first batch");
    }
}

#[test]
fn a_stop_in_a_training_epoch() {
    let _alone = alone();
    for setup in Setup::new().on_all_loops() {
        let setup = Setup { train: loader_with(40, 2, stop), accumulation: Some(2), ..setup };
        let (recorder, outcome) = setup.is_the_same_profiled();
        assert_eq!(outcome.interrupted.as_deref(), Some("by the loader"));
        assert_eq!(recorder.calls("run_validation_epoch"), 1);
    }
}

#[test]
fn a_stop_in_a_validation() {
    let _alone = alone();
    for setup in Setup::new().on_all_loops() {
        let setup = Setup { valid: loader_with(40, 1, stop), checkpoints: true, ..setup };
        let (recorder, outcome) = setup.is_the_same_profiled();
        assert_eq!(outcome.interrupted.as_deref(), Some("by the loader"));
        let epochs = usize::from(!cfg!(burn_0_23));
        assert_eq!(outcome.count("epoch "), epochs, "{:?}", outcome.events);
        assert_eq!(recorder.calls("save_checkpoint"), 0);
    }
}

#[test]
fn an_error_of_a_loader() {
    let _alone = alone();
    for setup in Setup::new().on_all_loops() {
        let train = Setup { train: loader_with(40, 2, fail), accumulation: Some(2), ..setup };
        let (_, outcome) = train.is_the_same_profiled();
        assert!(outcome.error.unwrap().contains("bad disk"));
        let valid = Setup { valid: loader_with(40, 1, fail), ..train };
        let valid = Setup { train: Setup::new().train, ..valid };
        let (_, outcome) = valid.is_the_same_profiled();
        assert!(outcome.error.unwrap().contains("bad disk"));
    }
}

#[test]
fn an_evaluation() {
    let _alone = alone();
    let evaluate = |recorder: Option<Arc<Recorder>>| {
        let directory = tempfile::tempdir().unwrap();
        let log = EventLog::default();
        let evaluator = EvaluatorBuilder::new(directory.path())
            .with_application_logger(None)
            .with_progress_logger(log.clone())
            .metrics((LossMetric::new(),))
            .build(learner(1e-2).model());
        let splits =
            [("a", loader(items(100))), ("b", hooked_loader(40, || fail(&Interrupter::new())))];
        let error = evaluator.profiler(recorder).unwrap().eval_all(splits).error.unwrap();
        (log.lines(), error.to_string())
    };
    let plain = evaluate(None);
    assert_eq!(evaluate(Some(Recorder::new())), plain);
    assert!(plain.1.contains("bad disk"));
}

/// Tests of behaviour that burn 0.23 introduced.
#[cfg(burn_0_23)]
mod burn_0_23 {
    use std::sync::Mutex;

    use burn::data::dataloader::{DataLoaderIterator, Progress};
    use burn::tensor::{ExecutionError, TensorReadError};
    use burn::train::metric::{LossInput, Metric, MetricMetadata, MetricName, SerializedEntry};

    use super::*;

    /// A loader that knows its number of items only at the end of its data.
    struct Unknown(Arc<dyn DataLoader<Batch>>);

    struct UnknownIterator<'a>(Box<dyn DataLoaderIterator<Batch> + 'a>);

    impl DataLoader<Batch> for Unknown {
        fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
            Box::new(UnknownIterator(self.0.iter()))
        }

        fn num_items(&self) -> usize {
            self.0.num_items()
        }

        fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
            Arc::new(Self(self.0.to_device(device)))
        }

        fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
            Arc::new(Self(self.0.slice(start, end)))
        }
    }

    impl Iterator for UnknownIterator<'_> {
        type Item = Result<Batch, DatasetError>;

        fn next(&mut self) -> Option<Self::Item> {
            self.0.next()
        }
    }

    impl DataLoaderIterator<Batch> for UnknownIterator<'_> {
        fn progress(&self) -> Progress {
            Progress { total: None, ..self.0.progress() }
        }
    }

    #[test]
    fn a_number_of_items_that_is_not_known_before_the_end() {
        let _alone = alone();
        let unknown: Loader = Arc::new(|_| Arc::new(Unknown(loader(items(100)))));
        for setup in Setup::new().on_all_loops() {
            let setup = Setup { train: unknown.clone(), valid: unknown.clone(), ..setup };
            let (_, outcome) = setup.is_the_same_profiled();
            let ends = outcome.events.iter().filter(|line| line.starts_with("end: "));
            let all_known = ends.clone().all(|line| line.contains("total: Some(100)"));
            assert!(ends.count() == 4 && all_known, "{:?}", outcome.events);
            let (_, stopped) = Setup { stops_before: true, ..setup }.is_the_same_profiled();
            assert!(stopped.events.iter().any(|line| line.contains("total: None")));
        }
    }

    #[test]
    fn a_measured_loader_tells_how_many_items_it_expects() {
        let measured = |loader| profile_loader(loader, Recorder::new(), "next");
        assert_eq!(measured(loader(items(100))).expected_num_items(), Some(100));
        let unknown = measured(Arc::new(Unknown(loader(items(100)))));
        assert_eq!(unknown.expected_num_items(), None);
    }

    /// A metric that fails in update number `at`, counted over all clones.
    #[derive(Clone)]
    struct Failing {
        at: usize,
        updates: Arc<Mutex<usize>>,
    }

    impl Metric for Failing {
        type Input = LossInput;

        fn name(&self) -> MetricName {
            Arc::new("Failing".to_owned())
        }

        fn update(
            &mut self,
            _: &LossInput,
            _: &MetricMetadata,
        ) -> Result<SerializedEntry, TensorReadError> {
            let mut updates = self.updates.lock().unwrap();
            *updates += 1;
            if *updates == self.at {
                return Err(ExecutionError::with_context("a metric that fails").into());
            }
            Ok(SerializedEntry::new(String::new(), String::new()))
        }

        fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
            Ok(SerializedEntry::new(String::new(), String::new()))
        }

        fn clear(&mut self) {}
    }

    /// Checks that the loop waits for the metrics before it applies the gradients that are left
    /// over.
    #[test]
    fn a_metric_that_fails_in_the_last_batch() {
        let _alone = alone();
        let fit = |recorder: Option<Arc<Recorder>>| {
            let directory = tempfile::tempdir().unwrap();
            let failing = Failing { at: 7, updates: Arc::default() };
            let result = common::training(directory.path())
                .grads_accumulation(3)
                .metric_train(failing)
                .profiler(recorder)
                .launch(common::learner(1e-2))
                .unwrap();
            (result.model.weights(), result.error.unwrap().to_string())
        };
        let recorder = Recorder::new();
        assert_eq!(fit(Some(recorder.clone())), fit(None));
        assert_eq!(recorder.calls("run_training_batch"), 7);
        assert_eq!(recorder.calls("Optimizer.step"), 2, "after the batches 3 and 6");
        assert_eq!(recorder.calls("run_validation_epoch"), 0);
    }
}
