//! Tests the Tensor report and its trace on burn's flex device, which does not report its ops.

use tempfile::tempdir;
use tests::trace;

use crate::short_run;

#[test]
fn actions_are_recorded_and_the_report_says_why_there_are_no_ops() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--profiler", "tensor", "--schedule", "wait=2,warmup=1,active=2"];
    let files = ["--row-limit", "1000", "--dirpath", "D", "--filename", "F"];
    short_run(directory.path()).args(arguments).args(files).succeed();
    let folder = directory.path().join("D");
    let table = std::fs::read_to_string(folder.join("fit-F.txt")).expect("a report");
    for expected in [
        "FIT Profiler Report",
        "ProfilerStep*",
        "run_training_batch",
        "no ops of Device<Flex",
        "mlprof run",
    ] {
        assert!(table.contains(expected), "no {expected:?} in:\n{table}");
    }
    trace::check_steps(
        &trace::of_stage(&folder, "fit-F"),
        &["ProfilerStep#3", "ProfilerStep#4"],
        &[("run_training_batch", 1), ("[module]", 4), ("backward", 1), ("Optimizer.step", 1)],
    );
    assert!(folder.join("test-F.txt").exists());
}

/// burn's own directory is temporary here. No trace is written to a place where the user would not
/// find it.
#[test]
fn without_a_directory_the_report_says_that_there_is_no_trace() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).args(["--profiler", "tensor"]).succeed();
    assert!(run.stdout.contains("no trace was written"), "{}", run.stdout);
    assert!(!run.stdout.contains("Written:"), "{}", run.stdout);
}
