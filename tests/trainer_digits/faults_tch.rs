//! What is found in tch's program with faults, and no longer once they are mended.

use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;
use tests::findings::{Faulty, of_rule, sure};
use tests::program::{Run, build};

use crate::PACKAGE;

/// A fit with these faults.
fn fit(directory: &Path, faults: &[&str], arguments: &[&str]) -> Faulty {
    let list = faults.join(",");
    let run = Run::of(&build(PACKAGE, "tch-faults"), directory)
        .args(["--json", "fit.json"])
        .args(arguments);
    let run = if faults.is_empty() { run } else { run.args(["--faults", &list]) };
    let finished = run.succeed();
    Faulty::new(&directory.join("fit.json"), &finished)
}

/// Most of what these faults cost is waiting for a slow disk: 80 files are read, and 64 written.
#[test]
fn two_faults_are_found_each_until_it_is_mended_which_saves_what_was_promised() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--profiler", "simple", "--epochs", "8", "--batch-size", "128"];
    let arguments = [&arguments[..], &["--slow-disk", "50"]].concat();
    let faulty = fit(directory.path(), &["loader", "checkpoints"], &arguments);
    let rules: Vec<_> = sure(&faulty.report).into_iter().map(|(rule, _)| rule).collect();
    assert_eq!(rules, ["data-waiting", "checkpoints"]);
    for (rule, other) in [("data-waiting", "checkpoints"), ("checkpoints", "loader")] {
        let mended = fit(directory.path(), &[other], &arguments);
        faulty.assert_saves_what_was_promised(rule, &mended);
    }
}

/// Bytes that recorded steps have left behind.
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
