//! The numbers of a training: mistakes that are planted into them are found where they are, and nothing else changes.

use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::numerics::{self, report};
use tests::program::{Finished, Run};

use crate::program;

/// A short training under the numerics profiler.
fn run(directory: &Path, arguments: &[&str]) -> Finished {
    numerics::run(&program(), directory, arguments)
}

#[test]
fn a_planted_nan_is_named_in_the_layer_and_step_that_make_it() {
    for plant in ["nan", "variance"] {
        numerics::assert_planted_mistake_is_named(&program(), plant);
    }
}

#[test]
fn a_training_ends_before_the_numbers_get_into_the_parameters() {
    let directory = tempdir().expect("a folder");
    let finished = run(directory.path(), &["--plant", "variance", "--stop-on-nan"]);
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    let stopped = "the profiler stopped the training at batch 20 of epoch 0: in step 20 what [module]Linear: hidden";
    assert!(finished.stderr.contains(stopped), "{}", finished.stderr);
    // The report is there all the same, and no parameter is spoilt.
    let report = report(directory.path());
    let rows = report["tensors"].as_array().expect("rows").iter();
    let spoilt: Vec<_> =
        rows.filter(|row| row["all"]["nans"] != 0).map(|row| &row["role"]).collect();
    assert!(!spoilt.contains(&&Value::from("update")), "{spoilt:?}");
    assert_eq!(
        (&report["steps"], report["first_not_finite"]["step"].as_u64()),
        (&20.into(), Some(20))
    );
}

#[test]
fn a_learning_rate_that_is_too_high_is_told_by_what_it_does() {
    numerics::assert_planted_learning_rate_is_told(&program());
}

#[test]
fn a_healthy_training_has_no_trouble_and_learns_the_same_to_the_last_bit() {
    let directory = tempdir().expect("a folder");
    let watched = run(directory.path(), &["--loss-curve", "watched.txt"]);
    assert!(watched.status.success(), "{watched:#?}");
    let arguments = ["--profiler", "none", "--epochs", "2", "--loss-curve", "plain.txt"];
    let plain = Run::of(&program(), directory.path()).args(arguments).succeed();
    assert_eq!(test_accuracy(&watched.stdout), test_accuracy(&plain.stdout));
    let curve = |name: &str| std::fs::read(directory.path().join(name)).expect("a curve");
    assert_eq!(curve("watched.txt"), curve("plain.txt"));
    numerics::assert_digits_are_healthy(&report(directory.path()));
}

#[test]
fn two_runs_part_where_one_computes_with_16_bits() {
    numerics::assert_planted_half_is_where_runs_part(&program());
}
