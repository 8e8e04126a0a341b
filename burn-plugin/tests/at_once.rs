//! Runs two trainings concurrently in one process, each with its own profiler.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Barrier};
use std::thread;

use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::InMemDataset;
use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::renderer::CliMetricsRenderer;
use burn::train::{ExecutionStrategy, MultiDeviceOptim};
use common::event_log::EventLog;
use common::{Items, Recorder, alone, items, learner, loader, training_on};
use mlprof_burn::prelude::*;

const EPOCHS: usize = 2;
/// Number of validation batches for the 32 items of `training_on`.
const VALID: usize = 2;

/// Runs both closures concurrently, each on its own thread.
fn at_once(
    counts: [usize; 2],
    fit: impl Fn(usize, &Barrier) -> Arc<Recorder> + Sync,
) -> [Arc<Recorder>; 2] {
    let meet = Barrier::new(counts.len());
    thread::scope(|threads| {
        let (fit, meet) = (&fit, &meet);
        let trainings = counts.map(|count| threads.spawn(move || fit(count, meet)));
        trainings.map(|training| training.join().unwrap())
    })
}

fn fit(batches: usize, meet: &Barrier) -> Arc<Recorder> {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let training = training_on(directory.path(), loader(items(16 * batches)))
        .profiler(recorder.clone())
        .metrics((LossMetric::new(),));
    let learner = learner(1e-2);
    meet.wait();
    training.launch(learner).unwrap();
    recorder
}

#[test]
fn each_profiler_has_its_own_training_and_no_other() {
    let _alone = alone();
    let counts = [21, 16];
    for (recorder, count) in at_once(counts, fit).into_iter().zip(counts) {
        recorder.assert_balanced();
        // `backward` reports to the active profiler on the loop's thread. Metrics report to it on
        // burn's event thread.
        let train = count * EPOCHS;
        assert_eq!(recorder.calls("run_training_batch"), train);
        assert_eq!(recorder.calls("backward"), train, "{:?}", recorder.all_calls());
        let all = recorder.all_calls();
        let updates = all
            .iter()
            .filter(|(name, _)| name.starts_with("[Metric]") && name.ends_with(".update"));
        let updates: usize = updates.map(|(_, calls)| calls).sum();
        assert_eq!(updates, train + VALID * EPOCHS, "{all:?}");
    }
}

/// Trains with one thread per device for two devices, a batching thread, and the renderer and a
/// logger on burn's event thread.
fn fit_on_many_threads(batches: usize, meet: &Barrier) -> Arc<Recorder> {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let devices = vec![Device::flex().autodiff(); 2];
    let strategy = ExecutionStrategy::MultiDevice(devices, MultiDeviceOptim::OptimMainDevice);
    let loader = DataLoaderBuilder::new(ProfiledBatcher::new(Items::default()))
        .batch_size(16)
        .num_workers(1)
        .build(InMemDataset::new(items(16 * batches)));
    let training = training_on(directory.path(), loader)
        .profiler(recorder.clone())
        .with_training_strategy(strategy.into())
        .renderer(Box::new(CliMetricsRenderer::new()))
        .with_progress_logger(EventLog::default());
    let learner = learner(1e-2);
    meet.wait();
    training.launch(learner).unwrap();
    recorder
}

#[test]
fn threads_that_a_training_makes_are_its_own() {
    let _alone = alone();
    let counts = [20, 16];
    let by_itself = counts.map(|count| fit_on_many_threads(count, &Barrier::new(1)).all_calls());
    for name in [
        "backward",
        "[Batcher]Items.batch",
        "[MetricsRenderer].progress",
        "[ProgressLogger].progress",
    ] {
        assert!(by_itself[0][name] > by_itself[1][name], "{name}: {by_itself:?}");
    }
    let together = at_once(counts, fit_on_many_threads);
    for (recorder, by_itself) in together.into_iter().zip(by_itself) {
        recorder.assert_balanced();
        assert_eq!(recorder.all_calls(), by_itself);
    }
}
