//! Tests monitoring of a running burn training.
#![cfg(unix)]

use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;
use tests::collector;
use tests::program::{Run, build};

use crate::digits;

#[test]
fn its_epochs_and_samples_are_known() {
    let (directory, runtime) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let run = Run::of(&digits(), directory.path());
    let run = run.args(["--live", "--epochs", "100000", "--batch-size", "32"]);
    let mut running = run.env("XDG_RUNTIME_DIR", runtime.path()).start();
    running.wait_until_it_says("epoch 2/");
    let mut listed = Command::new(build("mlprof", "mlprof"));
    listed.args(["ps", "--json"]).env("XDG_RUNTIME_DIR", runtime.path());
    let listed = listed.output().expect("it runs");
    running.interrupt();
    running.finish();

    let all: Value = serde_json::from_slice(&listed.stdout).expect("states");
    let training = &all[0]["trainings"][0];
    assert_eq!((&training["stage"], &training["epochs"]), (&"fit".into(), &100_000.into()));
    assert!(training["epoch"].as_u64().is_some_and(|epoch| epoch >= 1), "{training}");
    // The number of steps is that of the previous epoch.
    assert!(training["epoch_steps"].as_u64().is_some_and(|steps| steps > 1), "{training}");
    let steps: Vec<f64> = serde_json::from_value(training["last_steps"].clone()).expect("times");
    let samples = training["samples_per_second"].as_f64().expect("loaders tell items");
    // All batches have this size, except the last one of an epoch.
    let batch = samples * steps.iter().sum::<f64>() / steps.len() as f64;
    assert!((24.0..=32.001).contains(&batch), "{batch}: {training}");
}

#[test]
fn pushed_metrics_equal_the_reports() {
    // The program computes its accuracy at the end, outside all stages.
    collector::assert_pushed_is_as_reported(&digits(), &["[Batcher]", "[module]"]);
}
