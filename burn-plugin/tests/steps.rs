//! Checks which steps a profiler receives, how the validation between them is reported, and the
//! notes about devices without ops.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Device;
use burn::train::{EvaluatorBuilder, ExecutionStrategy, MultiDeviceOptim};
use common::{Mlp, alone, items, learner, loader, training};
use mlprof_burn::prelude::*;
use mlprof_core::tensor::Schedule;
use mlprof_core::{Action, NeverStarted, Observation, TensorProfiler};

/// Counts steps and records the actions that run while steps are paused.
#[derive(Default)]
struct Steps {
    steps: AtomicUsize,
    pauses: AtomicUsize,
    is_paused: AtomicUsize,
    while_paused: Mutex<Vec<&'static str>>,
    while_stepping: Mutex<Vec<&'static str>>,
    notes: Mutex<Vec<String>>,
}

impl Steps {
    fn seen(seen: &Mutex<Vec<&'static str>>, part: &str) -> bool {
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().any(|name| name.contains(part))
    }

    fn counts(&self) -> (usize, usize) {
        (self.steps.load(Ordering::Relaxed), self.pauses.load(Ordering::Relaxed))
    }
}

impl Profiler for Steps {
    fn start(&self, action: Action) {
        let is_paused = self.is_paused.load(Ordering::Relaxed) > 0;
        let seen = if is_paused { &self.while_paused } else { &self.while_stepping };
        seen.lock().unwrap_or_else(PoisonError::into_inner).push(action.name());
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::StepEnd => {
                self.steps.fetch_add(1, Ordering::Relaxed);
            }
            Observation::StepsPaused => {
                self.pauses.fetch_add(1, Ordering::Relaxed);
                self.is_paused.fetch_add(1, Ordering::Relaxed);
            }
            Observation::StepsResumed => {
                self.is_paused.fetch_sub(1, Ordering::Relaxed);
            }
            Observation::Note(text) => {
                self.notes.lock().unwrap_or_else(PoisonError::into_inner).push((*text).to_owned());
            }
            _ => {}
        }
    }
}

#[test]
fn every_training_batch_is_a_step_and_validation_is_between_them() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let steps = Arc::new(Steps::default());
    training(directory.path()).profiler(steps.clone()).launch(learner(1e-2)).unwrap();
    assert_eq!(steps.counts(), (14, 2), "7 batches and a validation in each of 2 epochs");
    assert_eq!(steps.is_paused.load(Ordering::Relaxed), 0);
    assert!(Steps::seen(&steps.while_paused, "validation_step"));
    assert!(!Steps::seen(&steps.while_stepping, "validation_step"));
    assert!(!Steps::seen(&steps.while_paused, "training_step"));
    let notes = steps.notes.lock().unwrap();
    assert!(notes.iter().any(|note| note.contains("Flex") && note.contains("mlprof run")));
}

#[test]
fn several_devices_take_a_step_together() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let steps = Arc::new(Steps::default());
    let devices = vec![Device::flex(), Device::flex()];
    let strategy = ExecutionStrategy::MultiDevice(devices, MultiDeviceOptim::OptimMainDevice);
    training(directory.path())
        .profiler(steps.clone())
        .with_training_strategy(strategy.into())
        .launch(learner(1e-2))
        .unwrap();
    assert_eq!(steps.counts(), (8, 2), "50 items for each device, in 4 batches");
}

#[test]
fn every_test_batch_is_a_step() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let steps = Arc::new(Steps::default());
    EvaluatorBuilder::new(directory.path())
        .profiler(steps.clone())
        .with_application_logger(None)
        .build(Mlp::new(&Device::flex()))
        .unwrap()
        .eval("test", loader(items(32)));
    assert_eq!(steps.counts(), (2, 0));
}

#[test]
fn the_tensor_profiler_follows_its_schedule_and_says_why_there_are_no_ops() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let told = recorded.clone();
    let schedule = Schedule::new().wait(3).warmup(1).active(2).repeat(2);
    let profiler = TensorProfiler::new()
        .schedule(schedule)
        .dirpath(directory.path())
        .filename("run")
        .on_trace_ready(move |cycle| {
            let names = cycle.tracks().iter().flat_map(|track| track.events());
            let batches = names.filter(|event| event.action.name() == "run_training_batch");
            told.lock().unwrap().push((cycle.steps.clone(), batches.count()));
        });
    training(directory.path()).profiler(profiler).launch(learner(1e-2)).unwrap();
    assert_eq!(*recorded.lock().unwrap(), [(4..6, 2), (10..12, 2)]);
    let report = std::fs::read_to_string(directory.path().join("fit-run.txt")).unwrap();
    assert!(report.contains("no ops of Device<Flex"), "{report}");
}
