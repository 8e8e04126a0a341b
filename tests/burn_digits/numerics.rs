//! Tests the numerics of a burn training. Planted mistakes are found where they occur, and
//! recording changes no results.

use tempfile::{TempDir, tempdir};
use tests::digits::test_accuracy;
use tests::numerics::{self, compare, report, run, said};
use tests::program::{Run, is_burn_next};

use crate::digits;

#[test]
fn a_planted_nan_is_named_in_the_layer_and_step_that_make_it() {
    for plant in ["nan", "variance"] {
        numerics::assert_planted_mistake_is_named(&digits(), plant);
    }
}

#[test]
fn a_layer_whose_numbers_are_too_small_for_16_bits_is_found() {
    numerics::assert_planted_underflow_is_found(&digits(), &[]);
    if !is_burn_next() {
        let on_wgpu = ["--device", "wgpu", "--epochs", "1"];
        numerics::assert_planted_underflow_is_found(&digits(), &on_wgpu);
    }
}

#[test]
fn a_layer_that_returns_nothing_but_0_is_found() {
    numerics::assert_planted_dead_layer_is_found(&digits());
}

#[test]
fn a_learning_rate_that_is_too_high_is_told_by_what_it_does() {
    numerics::assert_planted_learning_rate_is_told(&digits());
}

#[test]
fn two_runs_part_where_one_computes_with_16_bits() {
    numerics::assert_planted_half_is_where_runs_part(&digits());
}

#[test]
fn a_training_ends_before_the_numbers_get_into_the_parameters() {
    let directory = tempdir().expect("a folder");
    let finished = run(&digits(), directory.path(), &["--plant", "variance", "--stop-on-nan"]);
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    let stopped =
        "the profiler stopped the training: in step 20 the output of [module]Linear: hidden";
    assert!(finished.stderr.contains(stopped), "{}", finished.stderr);
    // The report exists despite the early end, and no parameter contains NaN.
    let report = report(directory.path());
    let rows = report["tensors"].as_array().expect("rows").iter();
    let spoilt: Vec<_> =
        rows.filter(|row| row["all"]["nans"] != 0).map(|row| &row["role"]).collect();
    assert!(!spoilt.contains(&&"update".into()), "{spoilt:?}");
    assert_eq!(report["first_not_finite"]["step"].as_u64(), Some(20));
}

#[test]
fn a_healthy_training_has_no_trouble_and_learns_the_same() {
    let directory = tempdir().expect("a folder");
    let watched = run(&digits(), directory.path(), &[]);
    assert!(watched.status.success(), "{watched:#?}");
    let plain = Run::of(&digits(), directory.path());
    let plain = plain.args(["--profiler", "none", "--epochs", "2"]).succeed();
    assert_eq!(test_accuracy(&watched.stdout), test_accuracy(&plain.stdout));
    // There is a line per epoch with its losses. mlprof-burn's own tests check that all weights are
    // bit-identical.
    let epochs = |stderr: &str| -> Vec<String> {
        stderr.lines().filter(|line| line.starts_with("epoch")).map(str::to_owned).collect()
    };
    assert_eq!(epochs(&watched.stderr), epochs(&plain.stderr));
    assert_eq!(epochs(&plain.stderr).len(), 2, "{}", plain.stderr);
    numerics::assert_digits_are_healthy(&report(directory.path()));
}

/// Records the first step on a device, before differences of one step affect the next.
fn first_step(arguments: &[&str]) -> TempDir {
    let directory = tempdir().expect("a folder");
    let own = ["--epochs", "1", "--every", "1000"];
    let finished = run(&digits(), directory.path(), &[&own, arguments].concat());
    assert!(finished.status.success(), "{finished:#?}");
    directory
}

#[test]
fn a_processor_and_a_device_agree_down_to_rounding() {
    if is_burn_next() {
        return; // built without a device
    }
    let flex = first_step(&[]);
    let wgpu = first_step(&["--device", "wgpu"]);
    let compared = compare(flex.path(), wgpu.path(), &[]);
    assert!(compared.status.success(), "{compared:?}");
    let text = said(&compared);
    assert!(text.contains("; the batches are equal in the only step."), "{text}");
    assert!(text.contains(" of 1 step were compared. No difference."), "{text}");
    // One layer uses other kernels here.
    let half = first_step(&["--device", "wgpu", "--plant", "half"]);
    let compared = compare(flex.path(), half.path(), &[]);
    assert_eq!(compared.status.code(), Some(1), "{compared:?}");
    let first = said(&compared);
    let first = first.lines().next().unwrap_or_default();
    assert!(first.starts_with("First difference: the output of [module]Conv2"), "{first}");
    assert!(first.contains(": conv2 in step 0, whose inputs agree: "), "{first}");
}
