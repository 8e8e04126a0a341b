//! Tests training with two processes: one report per process, and a combined analysis.

use std::fs;
use std::path::Path;

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::program::{Run, build};
use tests::table::Table;

/// A program that trains in two processes.
#[derive(Debug, Clone, Copy)]
struct Program {
    package: &'static str,
    name: &'static str,
}

const CANDLE: Program = Program { package: "candle-workers", name: "data-parallel" };
const TCH: Program = Program { package: "tch-digits", name: "tch-data-parallel" };

impl Program {
    fn run(self, folder: &Path) -> Run {
        Run::of(&build(self.package, self.name), folder)
    }
}

/// Steps of one epoch: 1257 digits, half of them per process, in batches of 32.
const STEPS: u64 = 20;

fn both_processes_train_together_and_report_apart(program: Program) {
    let directory = tempdir().expect("a folder");
    let run = program.run(directory.path());
    let arguments = ["--epochs", "2", "--profiler", "simple", "--filename", "F"];
    let run = run.args(arguments).args(["--dirpath", "logs"]).succeed();
    assert!(run.stdout.contains("2 processes have the same weights"), "{}", run.stdout);
    test_accuracy(&run.stdout);

    let logs = directory.path().join("logs");
    assert_eq!(file_names(&logs), ["fit-F-0.txt", "fit-F-1.txt", "test-F-0.txt"]);
    for rank in 0..2 {
        let text = fs::read_to_string(logs.join(format!("fit-F-{rank}.txt"))).expect("a report");
        let fit = Table::find("FIT", &text);
        assert_eq!(fit.row("all_reduce_gradients").calls, 2 * STEPS, "rank {rank}");
        assert_eq!(fit.row("[Strategy]SingleDeviceStrategy.training_step").calls, 2 * STEPS);
        assert_eq!(fit.row("[LightningModule]ParallelLearner.on_after_backward").calls, 2 * STEPS);
    }
}

fn only_rank_0_prints(program: Program) {
    let directory = tempdir().expect("a folder");
    let run = program.run(directory.path());
    let run = run.args(["--epochs", "1", "--profiler", "simple"]).succeed();
    assert_eq!(run.stdout.matches("FIT Profiler Report").count(), 1, "{}", run.stdout);
    assert_eq!(run.stderr.matches("epoch 1/1: ").count(), 1, "{}", run.stderr);
}

fn a_process_that_dies_does_not_leave_the_other_waiting(program: Program) {
    let directory = tempdir().expect("a folder");
    let run = program.run(directory.path());
    let arguments = ["--lose-rank", "1", "--profiler", "simple", "--filename", "F"];
    let run = run.args(arguments).args(["--dirpath", "logs"]).finish();
    assert!(!run.status.success(), "{run:#?}");
    assert!(run.stderr.contains("rank 1"), "it is named: {}", run.stderr);
    let text = fs::read_to_string(directory.path().join("logs/fit-F-0.txt")).expect("a report");
    assert!(Table::find("FIT", &text).row("all_reduce_gradients").calls >= 10);
}

/// Returns the report of rank 0 from a training with two processes.
fn report_of_rank_0(program: Program, more: &[&str]) -> String {
    let directory = tempdir().expect("a folder");
    let run = program.run(directory.path());
    let arguments = ["--epochs", "1", "--profiler", "simple", "--filename", "F", "--json-files"];
    run.args(arguments).args(["--dirpath", "logs"]).args(more).succeed();
    let read = |name: &str| fs::read_to_string(directory.path().join("logs").join(name));
    assert!(!read("fit-F-1.txt").expect("a report").contains("ranks merged"));
    read("fit-F-0.txt").expect("a report")
}

fn the_report_of_rank_0_names_who_holds_the_others_up(program: Program) {
    let report = report_of_rank_0(program, &["--slow-rank", "1", "--slow-by", "60"]);
    assert!(report.contains("\n2 of 2 ranks merged, fit\n"), "{report}");
    assert!(report.contains("the 20 steps common to all ranks"), "{report}");
    assert!(report.contains("\nRank 1 is slow: "), "{report}");
    assert!(report.contains("\nIt loses the most in waiting for data, "), "{report}");
    let exposed = report.lines().find(|line| line.trim_start().starts_with("waiting for data "));
    assert!(exposed.is_some_and(|line| line.ends_with("rank 1, 20 times")), "{report}");
    let report =
        report_of_rank_0(program, &["--slow-rank", "0", "--slow-at", "forward", "--slow-by", "60"]);
    assert!(report.contains("\nRank 0 is slow: "), "{report}");
    assert!(report.contains("\nIt loses the most in forward, "), "{report}");
}

/// Records the traces of two ranks with twelve steps each, and merges them. Returns the analysis
/// that `mlprof merge` prints, and the merged trace.
fn merged(program: Program, more: &[&str]) -> (serde_json::Value, serde_json::Value) {
    let directory = tempdir().expect("a folder");
    let run = program.run(directory.path());
    let arguments = ["--epochs", "1", "--profiler", "tensor", "--filename", "F"];
    let schedule = ["--dirpath", "logs", "--schedule", "wait=1, active=12, repeat=1"];
    run.args(arguments).args(schedule).args(more).succeed();
    let mlprof = build("mlprof", "mlprof");
    let arguments = ["merge", "logs", "-o", "merged.json", "--json"];
    let found = Run::of(&mlprof, directory.path()).args(arguments).succeed();
    let merged = fs::read(directory.path().join("merged.json")).expect("it is there");
    let json = |text: &[u8]| serde_json::from_slice(text).expect("JSON");
    (json(found.stdout.as_bytes()), json(&merged))
}

/// Checks that the analysis names the late rank and the cause. A sleep of 60 ms is many times
/// longer than a step, even on a loaded machine.
fn a_rank_whose_data_are_late_is_found_in_the_traces_of_both(program: Program) {
    let (found, merged) = merged(program, &["--slow-rank", "1", "--slow-by", "60"]);
    assert_eq!((&found["world_size"], &found["missing"]), (&2.into(), &serde_json::json!([])));
    assert_eq!(found["common_steps"], 12);
    let slow = found["stragglers"].as_array().expect("a list");
    assert_eq!(slow.len(), 1, "{found:#}");
    assert_eq!((&slow[0]["rank"], &slow[0]["stage"]), (&1.into(), &"waiting for data".into()));
    let longer = slow[0]["stage_longer_ns"].as_i64().expect("a number");
    assert!(longer > 40_000_000, "{longer} ns of 60 ms");
    // The exposed times of all stages add up to the length of the steps.
    let exposed = found["exposed"].as_array().expect("a list").iter();
    let sum: i64 = exposed.map(|part| part["exposed_ns"].as_i64().expect("a number")).sum();
    assert_eq!(sum, found["length_ns"].as_i64().expect("a number"));
    // Both processes ran on this machine, so their clocks are the same.
    let offset = &found["files"][1]["offset"];
    assert_eq!(offset["method"], "machine_clock", "{found:#}");
    assert!(offset["error_ns"].as_i64().is_some_and(|error| error < 1_000_000), "{offset}");
    // No rank leaves a collective operation before all ranks have entered it.
    let events = merged["traceEvents"].as_array().expect("a list");
    let meetings = |process: i64| -> Vec<(f64, f64)> {
        let is_it = |event: &&serde_json::Value| {
            event["name"] == "all_reduce_gradients" && event["pid"].as_i64() == Some(process)
        };
        let times = |event: &serde_json::Value| {
            let number = |field: &str| event[field].as_f64().expect("a number");
            (number("ts"), number("ts") + number("dur"))
        };
        let mut times: Vec<_> = events.iter().filter(is_it).map(times).collect();
        times.sort_by(|one, other| one.0.total_cmp(&other.0));
        times
    };
    let (first, second) = (meetings(0), meetings(1000));
    assert_eq!((first.len(), second.len()), (12, 12));
    for (one, other) in first.iter().zip(&second) {
        assert!(one.1 > other.0 && other.1 > one.0, "{one:?} {other:?}");
    }
}

fn a_rank_that_computes_slowly_is_found_with_its_forward(program: Program) {
    let arguments = ["--slow-rank", "0", "--slow-at", "forward", "--slow-by", "60"];
    let (found, _) = merged(program, &arguments);
    let slow = &found["stragglers"][0];
    assert_eq!((&slow["rank"], &slow["stage"]), (&0.into(), &"forward".into()), "{found:#}");
}

/// The tests of one program.
macro_rules! tests_of {
    ($framework:ident, $program:expr) => {
        mod $framework {
            use super::*;

            #[test]
            fn both_processes_train_together_and_report_apart() {
                super::both_processes_train_together_and_report_apart($program);
            }

            #[test]
            fn only_rank_0_prints() {
                super::only_rank_0_prints($program);
            }

            #[test]
            fn a_process_that_dies_does_not_leave_the_other_waiting() {
                super::a_process_that_dies_does_not_leave_the_other_waiting($program);
            }

            #[test]
            fn the_report_of_rank_0_names_who_holds_the_others_up() {
                super::the_report_of_rank_0_names_who_holds_the_others_up($program);
            }

            #[test]
            fn a_rank_whose_data_are_late_is_found_in_the_traces_of_both() {
                super::a_rank_whose_data_are_late_is_found_in_the_traces_of_both($program);
            }

            #[test]
            fn a_rank_that_computes_slowly_is_found_with_its_forward() {
                super::a_rank_that_computes_slowly_is_found_with_its_forward($program);
            }
        }
    };
}

tests_of!(candle, CANDLE);
tests_of!(tch, TCH);
