//! Tests a training that accepts connections, and the commands that monitor it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::{Running, build};
use tests::python;
use tests::table::Table;

use crate::long_training::{EPOCHS, prepared, unwatched_accuracy};

/// Python script that checks a trace of three complete consecutive steps with the trainer's
/// actions.
const STEPS: &str = r##"
import gzip, json, sys
events = json.load(gzip.open(sys.argv[1], "rt", encoding="utf-8"))["traceEvents"]
slices = [event for event in events if event["ph"] == "X"]
steps = sorted((e for e in slices if e["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
numbers = [int(step["name"].split("#")[1]) for step in steps]
assert len(numbers) == 3 and numbers == list(range(numbers[0], numbers[0] + 3)), numbers
for step in steps:
    inside = [e for e in slices if step["ts"] <= e["ts"] and e["ts"] + e["dur"] <= step["ts"] + step["dur"]]
    batches = [e for e in inside if e["name"] == "run_training_batch"]
    assert len(batches) == 1, (step, [e["name"] for e in inside])
"##;

fn mlprof(runtime: &Path, arguments: &[&str]) -> Output {
    let command = build("mlprof", "mlprof");
    let output = Command::new(command).args(arguments).env("XDG_RUNTIME_DIR", runtime).output();
    output.expect("the command runs")
}

pub fn succeed(runtime: &Path, arguments: &[&str]) -> String {
    let output = mlprof(runtime, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "mlprof {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(runtime: &Path, arguments: &[&str]) -> String {
    let output = mlprof(runtime, arguments);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).expect("text")
}

/// Returns the process id and the JSON entry of the only listed process.
fn listed(runtime: &Path) -> (String, Value) {
    let all: Value = serde_json::from_str(&succeed(runtime, &["ps", "--json"])).expect("JSON");
    let [process] = all.as_array().expect("a list").as_slice() else { panic!("{all:#}") };
    (process["process"].to_string(), process.clone())
}

fn look_in(running: &mut Running, runtime: &Path, directory: &Path, profiler: &str) {
    running.wait_until_it_says("epoch 2/");
    let (number, process) = listed(runtime);
    assert_eq!(process["program"], crate::PACKAGE);
    let training = &process["trainings"][0];
    assert_eq!((&training["stage"], &training["epochs"]), (&"fit".into(), &EPOCHS.into()));
    assert!(succeed(runtime, &["ps"]).contains(&number));
    assert!(training["loss"].as_f64().is_some_and(|loss| loss < 3.0), "{training}");
    let steps: Vec<f64> = serde_json::from_value(training["last_steps"].clone()).expect("times");
    let samples = training["samples_per_second"].as_f64().expect("batches have a size");
    // All batches have 32 digits, except the last one of an epoch.
    let batch = samples * steps.iter().sum::<f64>() / steps.len() as f64;
    assert!((24.0..=32.001).contains(&batch), "{batch}: {training}");

    let folder = directory.join("traces");
    let output = folder.to_str().expect("text");
    let printed = succeed(runtime, &["record", &number, "--steps", "3", "-o", output]);
    let trace = printed.trim_end();
    python::run(STEPS, &[Path::new(trace)]);
    succeed(runtime, &["analyze", trace]);
    let line = succeed(runtime, &["top", &number, "--count", "2", "--interval", "0.05", "--json"]);
    assert_eq!(line.lines().count(), 2);
    if profiler == "none" {
        let error = refused(runtime, &["report", &number]);
        assert!(error.contains("has no profiler and no report"), "{error}");
    } else {
        let table = succeed(runtime, &["report", &number]);
        assert!(Table::find("FIT", &table).row("run_training_batch").calls > 0);
        let open = succeed(runtime, &["dump", &number]);
        assert!(open.contains("run_training_epoch (for "), "{open}");
    }
}

#[test]
fn a_training_is_looked_into_and_learns_the_same() {
    // The connection is enabled by the environment, or by a line of the program.
    for (profiler, variable) in [("none", Some("1")), ("simple", None)] {
        let (directory, runtime) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
        let run = prepared(directory.path(), profiler);
        let run = run.env("XDG_RUNTIME_DIR", runtime.path());
        let run = match variable {
            Some(value) => run.env("MLPROF_LIVE", value),
            None => run.args(["--live"]),
        };
        let mut running = run.start();
        look_in(&mut running, runtime.path(), directory.path(), profiler);
        let finished = running.finish();
        assert!(finished.status.success(), "{finished:#?}");
        assert_eq!(test_accuracy(&finished.stdout), unwatched_accuracy(), "{profiler}");
        assert!(!finished.stderr.contains("mlprof"), "{}", finished.stderr);
        let left = std::fs::read_dir(runtime.path().join("mlprof")).expect("a folder").count();
        assert_eq!(left, 0, "the socket is gone");
        assert_eq!(succeed(runtime.path(), &["ps", "--json"]), "[]\n");
    }
}

#[test]
fn the_environment_forbids_what_a_program_asks_for() {
    let (directory, runtime) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let run = prepared(directory.path(), "none").args(["--live"]).env("MLPROF_LIVE", "0");
    let mut running = run.env("XDG_RUNTIME_DIR", runtime.path()).start();
    running.wait_until_it_says("epoch 1/");
    assert_eq!(succeed(runtime.path(), &["ps", "--json"]), "[]\n");
    assert!(!runtime.path().join("mlprof").exists());
    running.interrupt();
    running.finish();
}

#[test]
fn it_is_said_why_nobody_can_be_looked_into() {
    let runtime = tempdir().expect("a folder");
    let error = refused(runtime.path(), &["top"]);
    assert!(error.contains("cannot find a training of this user"), "{error}");
    let error = refused(runtime.path(), &["record", "1073741824"]);
    assert!(error.contains("cannot find process 1073741824"), "{error}");
    let own = std::process::id().to_string();
    let error = refused(runtime.path(), &["dump", &own]);
    assert!(error.contains("does not listen") && error.contains("MLPROF_LIVE=1"), "{error}");
}
