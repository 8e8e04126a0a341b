//! Two trainings at once in one process, each with a profiler of its own.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Barrier};
use std::thread;

use burn::train::metric::LossMetric;
use burn_plugin::prelude::*;
use common::{Recorder, alone, items, learner, loader, training_on};

const EPOCHS: usize = 2;
/// With `training_on`'s 32 items to validate.
const VALID: usize = 2;

fn fit(batches: usize, meet: &Barrier) -> Arc<Recorder> {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let training = training_on(directory.path(), loader(items(16 * batches)))
        .profiler(recorder.clone())
        .unwrap()
        .metrics((LossMetric::new(),));
    let learner = learner(1e-2);
    meet.wait();
    training.launch(learner);
    recorder
}

#[test]
fn each_profiler_has_its_own_training_and_no_other() {
    let _alone = alone();
    let counts = [21, 16];
    let meet = Barrier::new(counts.len());
    let recorders = thread::scope(|threads| {
        let trainings = counts.map(|count| {
            let meet = &meet;
            threads.spawn(move || fit(count, meet))
        });
        trainings.map(|training| training.join().unwrap())
    });
    for (recorder, count) in recorders.into_iter().zip(counts) {
        recorder.assert_balanced();
        // `backward` goes to the active profiler, on the loop's thread; metrics do on burn's own.
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
