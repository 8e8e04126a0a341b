//! Checks that a report is printed however a training ends.

#![allow(clippy::unwrap_used)]

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use burn::data::dataset::DatasetError;
use burn::train::metric::LossMetric;
use common::{
    PANIC, Recorder, alone, hooked_loader, interrupt, items, learner, loader, training, training_on,
};
use mlprof_burn::prelude::*;

#[test]
fn a_panic_in_a_step_is_reported_and_goes_on() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut bad = items(100);
    bad[40] = PANIC;
    let recorder = Recorder::new();
    let training = training_on(directory.path(), loader(bad)).profiler(recorder.clone());
    let panic = catch_unwind(AssertUnwindSafe(|| training.launch(learner(1e-2)))).err().unwrap();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"a step that panics"));
    assert_eq!(recorder.calls("[TrainStep]Mlp.training_step"), 3);
    assert_eq!(recorder.reports(), 1);
    assert!(mlprof_core::active().is_none(), "nothing stays active");
}

#[test]
fn a_panic_leaves_the_report_in_its_file() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut bad = items(100);
    bad[40] = PANIC;
    let profiler = SimpleProfiler::new().dirpath(directory.path()).filename("run");
    let training = training_on(directory.path(), loader(bad)).profiler(profiler);
    assert!(catch_unwind(AssertUnwindSafe(|| training.launch(learner(1e-2)))).is_err());
    let report = std::fs::read_to_string(directory.path().join("fit-run.txt")).unwrap();
    assert!(report.contains("FIT Profiler Report"), "{report}");
    assert!(report.contains("[TrainStep]Mlp.training_step"), "{report}");
}

#[test]
fn reports_say_which_burn_it_is_and_what_it_trains_on() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let profiler = Arc::new(SimpleProfiler::new());
    let training = training(directory.path()).profiler(profiler.clone());
    training.launch(learner(1e-2)).unwrap();
    let report = profiler.report().unwrap();
    let [burn] = &report.header().frameworks[..] else { panic!("{:?}", report.header()) };
    assert_eq!((burn.name.as_str(), burn.version.as_deref()), ("burn", Some("0.22")));
    let [device] = &burn.devices[..] else { panic!("{burn:?}") };
    assert!(device.starts_with("Flex"), "{burn:?}");
}

#[test]
fn an_error_of_a_loader_is_reported() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let loader = hooked_loader(50, || Err(DatasetError::new(std::io::Error::other("bad disk"))));
    let training = training_on(directory.path(), loader).profiler(recorder.clone());
    let result = training.launch(learner(1e-2)).unwrap();
    assert!(result.error.unwrap().to_string().contains("bad disk"));
    recorder.assert_balanced();
    assert_eq!(recorder.calls("run_training_batch"), 3, "batches before the one that fails");
    assert_eq!(recorder.reports(), 1);
}

#[test]
fn ctrl_c_ends_the_fit_after_the_batch_with_a_report_if_asked_to() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    let loader = hooked_loader(20, interrupt);
    let training = training_on(directory.path(), loader).profiler(recorder.clone());
    let result = training.on_interrupt(Interrupt::Return).launch(learner(1e-2)).unwrap();
    let reason = result.interrupted.unwrap().reason;
    assert_eq!(reason.as_deref(), Some(mlprof_burn::INTERRUPTED));
    recorder.assert_balanced();
    assert_eq!(recorder.calls("run_training_batch"), 2, "the second batch is finished");
    assert_eq!(recorder.reports(), 1);
}

#[test]
fn ctrl_c_ends_a_fit_without_a_profiler_too_if_asked_to() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let interrupt_and_wait = || {
        interrupt()?;
        // The delay lets the interruption reach the loop, which does not wait for the next batch
        // here.
        std::thread::sleep(std::time::Duration::from_millis(500));
        Ok(())
    };
    let training = training_on(directory.path(), hooked_loader(20, interrupt_and_wait));
    let training = training.num_epochs(1000).profiler(None::<&str>);
    let result = training.on_interrupt(Interrupt::Return).launch(learner(1e-2)).unwrap();
    let reason = result.interrupted.unwrap().reason;
    assert_eq!(reason.as_deref(), Some(mlprof_burn::INTERRUPTED));
}

#[test]
fn a_directory_that_cannot_be_written_does_not_stop_the_training() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a file, not a directory");
    std::fs::write(&file, "").unwrap();
    let profiler = SimpleProfiler::new().dirpath(file.join("below")).filename("run");
    let training = training(directory.path()).metrics((LossMetric::new(),));
    let result = training.profiler(profiler).launch(learner(1e-2)).unwrap();
    assert!(result.error.is_none() && result.interrupted.is_none());
}

#[test]
fn the_simple_profiler_counts_what_happened() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let profiler = SimpleProfiler::new().dirpath(directory.path()).filename("run");
    training(directory.path()).profiler(profiler).launch(learner(1e-2)).unwrap();
    let report = std::fs::read_to_string(directory.path().join("fit-run.txt")).unwrap();
    let row = report.lines().find(|line| line.contains("Optimizer.step")).unwrap();
    let calls = row.split('|').nth(3).unwrap().trim();
    assert_eq!(calls, "14", "{report}");
}
