//! The example `candle-workers`: batches from worker threads, and training by two processes.

use std::fs;

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::findings::assert_healthy;
use tests::program::{Run, build};
use tests::python;
use tests::table::Table;

const PACKAGE: &str = "candle-workers";
/// Steps of one epoch: 1257 digits, half of them for each process, 32 at a time.
const STEPS: u64 = 20;

#[test]
fn both_processes_train_together_and_report_apart() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&build(PACKAGE, "data-parallel"), directory.path());
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

/// Two threads have their batches ready long before they are needed, and two processes wait for each other
/// as they should.
#[test]
fn a_healthy_training_gives_nothing_above_a_hint() {
    let directory = tempdir().expect("a folder");
    for (program, arguments) in
        [("background-loader", &["--rays", "1"][..]), ("data-parallel", &["--epochs", "8"][..])]
    {
        assert_healthy(&build(PACKAGE, program), directory.path(), arguments, &[]);
    }
}

#[test]
fn only_rank_0_prints() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&build(PACKAGE, "data-parallel"), directory.path());
    let run = run.args(["--epochs", "1", "--profiler", "simple"]).succeed();
    assert_eq!(run.stdout.matches("FIT Profiler Report").count(), 1, "{}", run.stdout);
    assert_eq!(run.stderr.matches("epoch 1/1: ").count(), 1, "{}", run.stderr);
}

#[test]
fn a_process_that_dies_does_not_leave_the_other_waiting() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&build(PACKAGE, "data-parallel"), directory.path());
    let arguments = ["--lose-rank", "1", "--profiler", "simple", "--filename", "F"];
    let run = run.args(arguments).args(["--dirpath", "logs"]).finish();
    assert!(!run.status.success(), "{run:#?}");
    assert!(run.stderr.contains("rank 1"), "it is named: {}", run.stderr);
    let text = fs::read_to_string(directory.path().join("logs/fit-F-0.txt")).expect("a report");
    assert!(Table::find("FIT", &text).row("all_reduce_gradients").calls >= 10);
}

/// Traces of two ranks, of twelve steps each, and what `mlprof merge` makes of them.
fn merged(more: &[&str]) -> (serde_json::Value, serde_json::Value) {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&build(PACKAGE, "data-parallel"), directory.path());
    let arguments = ["--epochs", "1", "--profiler", "tensor", "--filename", "F"];
    let schedule = ["--dirpath", "logs", "--schedule", "wait=1, active=12, repeat=1"];
    run.args(arguments).args(schedule).args(more).succeed();
    let mlprof = build("profiler-cli", "mlprof");
    let arguments = ["merge", "logs", "-o", "merged.json", "--json"];
    let found = Run::of(&mlprof, directory.path()).args(arguments).succeed();
    let merged = fs::read(directory.path().join("merged.json")).expect("it is there");
    let json = |text: &[u8]| serde_json::from_slice(text).expect("JSON");
    (json(found.stdout.as_bytes()), json(&merged))
}

/// Who is late is named with what makes it late, however busy the machine is: 60 ms of sleep are many times what
/// a step takes.
#[test]
fn a_rank_whose_data_are_late_is_found_in_the_traces_of_both() {
    let (found, merged) = merged(&["--slow-rank", "1", "--slow-by", "60"]);
    assert_eq!((&found["world_size"], &found["missing"]), (&2.into(), &serde_json::json!([])));
    assert_eq!(found["common_steps"], 12);
    let slow = found["stragglers"].as_array().expect("a list");
    assert_eq!(slow.len(), 1, "{found:#}");
    assert_eq!((&slow[0]["rank"], &slow[0]["stage"]), (&1.into(), &"waiting for data".into()));
    let longer = slow[0]["stage_longer_ns"].as_i64().expect("a number");
    assert!(longer > 40_000_000, "{longer} ns of 60 ms");
    // What stages are to blame for is the steps' whole length.
    let exposed = found["exposed"].as_array().expect("a list").iter();
    let sum: i64 = exposed.map(|part| part["exposed_ns"].as_i64().expect("a number")).sum();
    assert_eq!(sum, found["length_ns"].as_i64().expect("a number"));
    // Both ran on this machine, whose clock tells where their times lie.
    let offset = &found["files"][1]["offset"];
    assert_eq!(offset["method"], "machine_clock", "{found:#}");
    assert!(offset["error_ns"].as_i64().is_some_and(|error| error < 1_000_000), "{offset}");
    // Nobody is through a collective before all have come to it.
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

#[test]
fn a_rank_that_computes_slowly_is_found_with_its_forward() {
    let arguments = ["--slow-rank", "0", "--slow-at", "forward", "--slow-by", "60"];
    let (found, _) = merged(&arguments);
    let slow = &found["stragglers"][0];
    assert_eq!((&slow["rank"], &slow["stage"]), (&0.into(), &"forward".into()), "{found:#}");
}

/// What Python reads in the JSON of a run: the share of waiting, and rows by thread.
fn background_loader(workers: &str) -> (f64, String) {
    const SCRIPT: &str = r#"
import json, sys
fit = json.load(open(sys.argv[1]))[0]
for thread in fit["threads"]:
    calls = {row["action"]: row["calls"] for row in thread["actions"]}
    print(thread["thread"], calls.get("prepare_batch", 0))
print(fit["data_waiting"]["share"])
"#;
    let directory = tempdir().expect("a folder");
    let json = directory.path().join("report.json");
    let run = Run::of(&build(PACKAGE, "background-loader"), directory.path());
    let arguments = ["--epochs", "2", "--profiler", "simple", "--workers", workers, "--json"];
    let run = run.args(arguments).args([&json]).succeed();
    test_accuracy(&run.stdout);
    assert!(run.stdout.contains("Waiting for data: "), "{}", run.stdout);
    let read = python::run(SCRIPT, &[&json]);
    let (threads, share) = read.trim_end().rsplit_once('\n').expect("threads and a share");
    (share.parse().expect("a share"), threads.to_owned())
}

#[test]
fn workers_have_rows_of_their_own() {
    let (alone, threads) = background_loader("0");
    assert!(threads.lines().any(|line| line == "main 80"), "{threads}");
    let (with_workers, threads) = background_loader("2");
    assert!(threads.lines().any(|line| line == "main 0"), "{threads}");
    let prepared: u64 = threads
        .lines()
        .filter(|line| !line.starts_with("main "))
        .map(|line| {
            let calls = line.rsplit(' ').next().and_then(|calls| calls.parse::<u64>().ok());
            calls.unwrap_or_else(|| panic!("no calls in {line:?}"))
        })
        .sum();
    assert_eq!(prepared, 2 * 40, "{threads}");
    // How much less the loop waits is the machine's affair, and no matter of a test.
    for share in [alone, with_workers] {
        assert!(share > 0.0 && share <= 1.0, "{share}");
    }
}
