//! Tests findings of tch's program with faults, before and after each fault is fixed.

use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;
use tests::findings::{Faulty, assert_healthy, of_rule, reports, sure};
use tests::program::{Run, build};
use tests::tries::{assert_in_one_of_three, assert_promise_is_kept};

use crate::PACKAGE;

/// Runs a fit with these faults.
pub(crate) fn fit(directory: &Path, faults: &[&str], arguments: &[&str]) -> Faulty {
    let list = faults.join(",");
    let run = Run::of(&build(PACKAGE, "tch-faults"), directory)
        .args(["--json", "fit.json"])
        .args(arguments);
    let run = if faults.is_empty() { run } else { run.args(["--faults", &list]) };
    let finished = run.succeed();
    Faulty::new(&directory.join("fit.json"), &finished)
}

/// Checks two faults whose cost is mainly waiting for a simulated slow disk: 80 files are read, and
/// 64 are written.
#[test]
fn two_faults_are_found_each_until_it_is_mended_which_saves_what_was_promised() {
    assert_in_one_of_three(|| {
        let directory = tempdir().expect("a folder");
        let arguments = ["--profiler", "simple", "--epochs", "8", "--batch-size", "128"];
        let arguments = [&arguments[..], &["--slow-disk", "50"]].concat();
        let faulty = fit(directory.path(), &["loader", "checkpoints"], &arguments);
        // The order of their costs depends on the real disk to which checkpoints are written.
        let found = sure(&faulty.report);
        assert!(
            found.is_sorted_by(|one, next| one.1 >= next.1),
            "what saves most comes first: {found:?}"
        );
        let mut rules: Vec<_> = found.into_iter().map(|(rule, _)| rule).collect();
        rules.sort();
        assert_eq!(rules, ["checkpoints", "data-waiting"]);
        for (rule, other) in [("data-waiting", "checkpoints"), ("checkpoints", "loader")] {
            let mended = fit(directory.path(), &[other], &arguments);
            faulty.assert_saves_what_was_promised(rule, &mended);
        }
    });
}

/// Returns the bytes that recorded steps allocated and did not free.
fn left(report: &Value) -> i64 {
    let rows = report["key_averages"]["rows"].as_array().expect("rows");
    let steps = rows.iter().find(|row| row["kind"] == "step").expect("steps");
    steps["cpu_memory_bytes"].as_i64().expect("a number")
}

#[test]
fn images_that_are_kept_are_found_with_the_memory_that_they_take() {
    let directory = tempdir().expect("a folder");
    let schedule = "wait=2,warmup=1,active=15,repeat=1";
    let arguments = ["--profiler", "tensor", "--profile-memory", "--schedule", schedule];
    let arguments = [&arguments[..], &["--epochs", "20"]].concat();
    let faulty = fit(directory.path(), &["history"], &arguments).report;
    let mended = fit(directory.path(), &[], &arguments).report;
    assert!(of_rule(&mended, "growing-memory").is_empty(), "{mended:#}");
    let [finding] = of_rule(&faulty, "growing-memory")[..] else { panic!("{faulty:#}") };
    assert_eq!(finding["confidence"], "likely");
    let promised = finding["cost"]["bytes"].as_i64().expect("a number");
    let saved = left(&faulty) - left(&mended);
    println!("{promised} bytes promised, {saved} saved");
    assert!((promised - saved).abs() * 10 <= 3 * saved, "{promised} promised, {saved} saved");
}

/// Options for thirty steps of a fit that takes longer than a second on any machine.
pub(crate) const STEPS: [&str; 6] =
    ["--profiler", "tensor", "--schedule", "wait=2,warmup=1,active=30,repeat=1", "--epochs", "30"];

/// Returns the row of a program function in the recorded steps.
pub(crate) fn function<'report>(report: &'report Value, name: &str) -> &'report Value {
    let rows = report["key_averages"]["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["kind"] == "function" && row["name"] == name);
    row.unwrap_or_else(|| panic!("no {name}: {rows:#?}"))
}

pub(crate) fn seconds(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// Returns the time that all calls of a function would save after the fix, based on the fastest
/// calls of each run. Other programs did not slow down the fastest calls.
pub(crate) fn saved(name: &str, faulty: &Value, mended: &Value) -> f64 {
    let quickest = |report| seconds(&function(report, name)["rest"]["min_seconds"]);
    let part = 1.0 - quickest(mended) / quickest(faulty);
    part * seconds(&function(faulty, name)["cpu_seconds"])
}

/// Checks ops on 64-bit numbers, which the fix computes in 32 bits.
#[test]
fn ops_on_doubles_are_found_until_they_are_floats() {
    let directory = tempdir().expect("a folder");
    let arguments = [&STEPS[..], &["--input-shapes", "--spectrum", "16"]].concat();
    assert_promise_is_kept(f64::max, || {
        let faulty = fit(directory.path(), &["doubles"], &arguments).report;
        let mended = fit(directory.path(), &[], &arguments).report;
        assert!(of_rule(&mended, "double-precision").is_empty(), "{mended:#}");
        let [finding] = of_rule(&faulty, "double-precision")[..] else { panic!("{faulty:#}") };
        assert_eq!(finding["place"]["op"], "aten::mm");
        assert_eq!(finding["confidence"], "likely");
        (seconds(&finding["cost"]["seconds"]), saved("spectrum", &faulty, &mended))
    });
}

/// Checks values that are read one by one. On the CPU, such a read does not wait, so the prediction
/// covers only the ops themselves. The surrounding calls, which the fix also removes, are not ops.
#[test]
fn values_that_are_read_one_by_one_are_found_until_they_no_longer_are() {
    assert_in_one_of_three(|| {
        let directory = tempdir().expect("a folder");
        let faulty = fit(directory.path(), &["reads"], &STEPS).report;
        let mended = fit(directory.path(), &[], &STEPS).report;
        assert!(of_rule(&mended, "hidden-waits").is_empty(), "{mended:#}");
        let [finding] = of_rule(&faulty, "hidden-waits")[..] else { panic!("{faulty:#}") };
        assert_eq!(finding["confidence"], "likely");
        assert_eq!(finding["place"]["op"], "aten::item");
        let remedy = finding["remedy"].as_str().expect("text");
        assert!(remedy.contains("double_value"), "{remedy}");
        let promised = seconds(&finding["cost"]["seconds"]);
        let whole = seconds(&function(&faulty, "contrast")["cpu_seconds"]);
        println!("{promised} s promised, {whole} s with the calls around");
        assert!(promised < whole && promised > 0.25 * whole, "{promised} of {whole}");
    });
}

#[test]
fn each_value_that_is_read_is_counted() {
    let directory = tempdir().expect("a folder");
    let faulty = fit(directory.path(), &["reads"], &STEPS).report;
    let mended = fit(directory.path(), &[], &STEPS).report;
    // There are two reads per pixel of 30 batches of 32 images, and one read for the statistics of
    // each batch.
    let fewer = calls(&faulty, "aten::item") - calls(&mended, "aten::item");
    let reads = 2 * 30 * 32 * 256;
    assert!((reads..=reads + 30).contains(&fewer), "{fewer} reads fewer, not {reads}");
}

/// Returns the number of calls of this op.
fn calls(report: &Value, name: &str) -> u64 {
    let rows = report["key_averages"]["rows"].as_array().expect("rows");
    let of_name = rows.iter().filter(|row| row["name"] == name);
    of_name.map(|row| row["calls"].as_u64().expect("a number")).sum()
}

/// Checks the ops of a test that record a graph for a backward pass.
#[test]
fn a_test_that_keeps_what_only_training_needs_is_found_until_it_no_longer_does() {
    let directory = tempdir().expect("a folder");
    let test = |faults: &[&str]| {
        let times = ["--epochs", "1", "--test-times", "1000"];
        fit(directory.path(), faults, &[&STEPS[..4], &times].concat());
        reports(&directory.path().join("fit.json")).remove(1)
    };
    let (faulty, mended) = (test(&["gradients"]), test(&[]));
    assert!(of_rule(&mended, "gradients-in-evaluation").is_empty(), "{mended:#}");
    let [finding] = of_rule(&faulty, "gradients-in-evaluation")[..] else { panic!("{faulty:#}") };
    assert_eq!(finding["confidence"], "likely");
    let remembered = |report: &Value| report["tracked_ops"].as_u64().expect("a number");
    let saved = remembered(&faulty) - remembered(&mended);
    println!("{saved} ops are no longer remembered");
    assert!(remembered(&mended) * 10 <= saved, "{saved}");
    // The cost of recording an op's graph was measured: docs/dev/findings-validation.md. The number
    // of ops is counted and therefore constant.
    assert_promise_is_kept(f64::max, || {
        (seconds(&finding["cost"]["seconds"]), saved as f64 * REMEMBERED)
    });
}

/// Cost of recording an op's graph in seconds.
const REMEMBERED: f64 = 2e-6;

#[test]
fn a_program_without_faults_gives_nothing_above_a_hint() {
    assert_in_one_of_three(|| {
        let directory = tempdir().expect("a folder");
        let program = build(PACKAGE, "tch-faults");
        let arguments = [&STEPS[2..], &["--test-times", "100"]].concat();
        assert_healthy(&program, directory.path(), &arguments, &[]);
    });
}
