//! Tests the Tensor report and its trace.

use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::Run;
use tests::trace;

use crate::program;

#[test]
fn the_table_is_in_a_file_and_the_trace_beside_it() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--epochs", "1", "--profiler", "tensor", "--dirpath", "D", "--filename", "F"];
    let schedule = ["--schedule", "wait=2,warmup=1,active=2", "--row-limit", "1000"];
    let run = Run::of(&program(), directory.path()).args(arguments).args(schedule).succeed();
    test_accuracy(&run.stdout);
    assert!(!run.stdout.contains("Profiler Report"), "{}", run.stdout);
    let folder = directory.path().join("D");
    let table = std::fs::read_to_string(folder.join("fit-F.txt")).expect("a report");
    for expected in [
        "FIT Profiler Report",
        "Self CPU %",
        "# of Calls",
        "ProfilerStep*",
        "run_training_batch",
        "[module]",
        "Self CPU time total: ",
    ] {
        assert!(table.contains(expected), "no {expected:?} in:\n{table}");
    }
    assert!(folder.join("test-F.txt").exists());
    trace::check_steps(
        &trace::of_stage(&folder, "fit-F"),
        &["ProfilerStep#3", "ProfilerStep#4"],
        &[("run_training_batch", 1), ("[module]", 3), ("optimizer_step", 1), ("Optimizer.step", 1)],
    );
}

#[test]
fn a_run_shorter_than_the_schedule_says_so_and_keeps_what_it_has() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--epochs", "1", "--profiler", "PyTorch", "--schedule", "wait=100000"];
    let run = Run::of(&program(), directory.path()).args(arguments).succeed();
    assert!(run.stdout.contains("100001"), "the first active step is named:\n{}", run.stdout);
    let schedule = ["--schedule", "wait=1,warmup=0,active=100000", "--row-limit", "1000"];
    let arguments = ["--epochs", "1", "--profiler", "tensor"].into_iter().chain(schedule);
    let run = Run::of(&program(), directory.path()).args(arguments).succeed();
    assert!(run.stdout.contains("run_training_batch"), "{}", run.stdout);
}
