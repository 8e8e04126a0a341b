//! Tests the numerics of a training. Planted mistakes are found where they occur, and recording
//! changes no results.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::numerics::{
    self, assert_digits_are_healthy, assert_planted_half_is_where_runs_part,
    assert_planted_learning_rate_is_told, assert_planted_mistake_is_named, compare, record, report,
    said,
};
use tests::program::{Finished, Run, build};

use crate::{PACKAGE, program};

/// Runs a short training under the numerics profiler.
fn run(directory: &Path, arguments: &[&str]) -> Finished {
    numerics::run(&program(), directory, arguments)
}

#[test]
fn a_planted_nan_is_named_in_the_layer_and_step_that_make_it() {
    for plant in ["nan", "variance"] {
        let first = assert_planted_mistake_is_named(&program(), plant);
        let source = first["source"].as_str().expect("file:line");
        assert!(source.contains("-digits/src/net.rs:"), "where the layer was wrapped: {source}");
    }
}

#[test]
fn what_is_not_finite_is_a_finding() {
    let directory = tempdir().expect("a folder");
    run(directory.path(), &["--plant", "variance"]);
    let report = report(directory.path());
    let first = &report["findings"][0];
    assert_eq!(first["rule"], "not-finite", "{report:#}");
    assert_eq!(first["place"]["action"], "[module]Linear: hidden");
    let mlprof = |option: &str| {
        let mut command = Command::new(build("mlprof", "mlprof"));
        let output = command.args(["report", "reports.json", option]).current_dir(&directory);
        String::from_utf8_lossy(&output.output().expect("it was built").stdout).into_owned()
    };
    let found = mlprof("--findings");
    let sentence = "1. In step 20 the output of [module]Linear: hidden is not finite: ";
    assert!(found.contains(sentence), "{found}");
    assert!(found.contains("Costs no time, but training quality\n"), "{found}");
    let explained = mlprof("--explain-rules");
    for rule in ["exploding-gradient", "vanishing-gradient", "dead-activation", "update-ratio"] {
        assert!(explained.contains(&format!("{rule}: ")), "{rule}: {explained}");
    }
}

#[test]
fn a_training_ends_before_the_numbers_get_into_the_parameters() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--plant", "variance", "--stop-on-nan", "--every", "7", "--save-tensors"];
    let finished = run(directory.path(), &arguments);
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    let stopped = "the profiler stopped the training at batch 20 of epoch 0: in step 20 the output of [module]Linear: hidden";
    assert!(finished.stderr.contains(stopped), "{}", finished.stderr);
    // The report exists despite the early end, and no parameter contains NaN.
    let report = report(directory.path());
    let rows = report["tensors"].as_array().expect("rows").iter();
    let spoilt: Vec<_> =
        rows.filter(|row| row["all"]["nans"] != 0).map(|row| &row["role"]).collect();
    assert!(!spoilt.contains(&&Value::from("update")), "{spoilt:?}");
    assert_eq!(
        (&report["steps"], report["first_not_finite"]["step"].as_u64()),
        (&20.into(), Some(20))
    );
    // The batch was run again with all tensors recorded, because the step itself was only watched.
    let rerun = &report["rerun"];
    // With tch, the op inside the layer is then known.
    let first = rerun["first_not_finite"]["name"].as_str().expect("a name");
    let op = first.strip_prefix("[module]Linear: hidden").expect("in the layer");
    assert!(if PACKAGE == "tch-digits" { op == " > aten::div" } else { op.is_empty() }, "{first}");
    assert_eq!(rerun["step"], 20);
    let record = std::fs::read_to_string(record(directory.path())).expect("a record");
    let again: Vec<Value> = record
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|row| row["is_rerun"] == true)
        .collect();
    assert_eq!(rerun["tensors"], again.len());
    let is_of_op = |row: &&Value| row["role"].as_str().is_some_and(|role| role.contains("op_"));
    let of_ops = again.iter().filter(is_of_op).count();
    // These are images and classes, four layers, and the loss.
    assert_eq!(again.len() - of_ops, 7, "{again:#?}");
    assert_eq!(of_ops > 0, PACKAGE == "tch-digits");
    assert!(again.iter().all(|row| row["step"] == 20), "{again:#?}");
    let saved = std::fs::read(directory.path().join("D/fit.numerics.safetensors")).expect("saved");
    let length = u64::from_le_bytes(saved[..8].try_into().expect("eight bytes")) as usize;
    let header: Value = serde_json::from_slice(&saved[8..8 + length]).expect("a header");
    assert_eq!(header["__metadata__"]["name"], "[module]Linear: hidden");
    let shapes = ["input", "output"].map(|name| header[name]["shape"].clone());
    assert_eq!(shapes, [serde_json::json!([32, 512]), serde_json::json!([32, 64])]);
}

#[test]
fn a_layer_whose_numbers_are_too_small_for_16_bits_is_found() {
    numerics::assert_planted_underflow_is_found(&program(), &[]);
}

#[test]
fn a_layer_that_returns_nothing_but_0_is_found() {
    numerics::assert_planted_dead_layer_is_found(&program());
}

#[test]
fn a_learning_rate_that_is_too_high_is_told_by_what_it_does() {
    assert_planted_learning_rate_is_told(&program());
}

#[test]
fn a_healthy_training_has_no_trouble_and_learns_the_same_to_the_last_bit() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--loss-curve", "watched.txt", "--every", "1", "--hash"];
    let watched = run(directory.path(), &arguments);
    assert!(watched.status.success(), "{watched:#?}");
    let arguments = ["--profiler", "none", "--epochs", "2", "--loss-curve", "plain.txt"];
    let plain = Run::of(&program(), directory.path()).args(arguments).succeed();
    assert_eq!(test_accuracy(&watched.stdout), test_accuracy(&plain.stdout));
    let curve = |name: &str| std::fs::read(directory.path().join(name)).expect("a curve");
    assert_eq!(curve("watched.txt"), curve("plain.txt"));
    let report = report(directory.path());
    assert_digits_are_healthy(&report);
    let rows = report["tensors"].as_array().expect("rows").iter();
    assert_eq!(rows.filter(|row| row["role"] == "batch").count(), 2);
}

#[test]
fn two_runs_part_where_one_computes_with_16_bits() {
    let said = assert_planted_half_is_where_runs_part(&program());
    let alike = "Start conditions: both runs have seed 42; the batches are equal in all 8 steps.\n";
    assert!(said.contains(alike), "{said}");
}

#[test]
fn runs_of_other_seeds_are_told_that_they_did_not_begin_alike() {
    let folders = ["42", "43"].map(|seed| {
        let directory = tempdir().expect("a folder");
        assert!(run(directory.path(), &["--seed", seed]).status.success());
        directory
    });
    let [one, other] = folders.each_ref().map(|folder| folder.path());
    let compared = compare(one, other, &[]);
    assert_eq!(compared.status.code(), Some(1), "{compared:?}");
    let said = said(&compared);
    let lines: Vec<_> = said.lines().take(3).collect();
    assert_eq!(lines[0], "Different conditions: the seeds are 42 and 43.", "{said}");
    assert!(
        lines[1].starts_with("Different conditions: the batches differ in 8 of 8 steps"),
        "{said}"
    );
    // The biases of tch's convolutions are initialised with 0 for every seed.
    let others = if PACKAGE == "tch-digits" { 6 } else { 8 };
    let parameters = format!("Different conditions: {others} parameters differ");
    assert!(lines[2].starts_with(&parameters), "{said}");
}

/// Checks a run that is killed with SIGKILL in the middle of an epoch.
#[test]
fn a_run_that_is_killed_leaves_a_record_that_can_be_compared() {
    let folders = [(); 2].map(|()| tempdir().expect("a folder"));
    let [killed, whole] = folders.each_ref().map(|folder| folder.path());
    let every = ["--profiler", "numerics", "--every", "1", "--dirpath", "D"];
    let running = Run::of(&program(), killed).args(every).args(["--epochs", "1000"]);
    let mut running = running.start();
    let lines = || {
        let text = std::fs::read(record(killed)).unwrap_or_default();
        text.iter().filter(|byte| **byte == b'\n').count()
    };
    while lines() < 500 {
        assert!(running.is_alive(), "it ends before");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(running);
    assert!(lines() >= 500);
    Run::of(&program(), whole).args(every).args(["--epochs", "1"]).succeed();
    let compared = compare(killed, whole, &[]);
    let said = said(&compared);
    assert!(said.contains(" were compared. No difference.\n"), "{said}");
    // The killed run may have recorded fewer or more steps than an epoch has.
    assert_eq!(compared.status.code(), Some(1), "{compared:?}");
    assert!(said.contains("Not compared: "), "{said}");
}
