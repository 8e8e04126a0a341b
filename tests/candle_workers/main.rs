//! Tests the example `candle-workers`: batches from worker threads.

use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::findings::assert_healthy;
use tests::program::{Run, build};
use tests::python;

const PACKAGE: &str = "candle-workers";
/// Checks that no findings above a hint occur if two threads prepare batches early enough and two
/// processes wait for each other regularly.
#[test]
fn a_healthy_training_gives_nothing_above_a_hint() {
    let directory = tempdir().expect("a folder");
    for (program, arguments) in
        [("background-loader", &["--rays", "1"][..]), ("data-parallel", &["--epochs", "8"][..])]
    {
        assert_healthy(&build(PACKAGE, program), directory.path(), arguments, &[]);
    }
}

/// Returns the share of waiting and the rows by thread, which Python reads from a run's JSON.
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
    // The reduction of the waiting time depends on the machine and is not tested.
    for share in [alone, with_workers] {
        assert!(share > 0.0 && share <= 1.0, "{share}");
    }
}
