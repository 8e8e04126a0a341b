//! `mlprof diff` of traces of real trainings: a slower loader is named, and equal trainings are equal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;
use tests::program::{Run, build};

use crate::PACKAGE;

/// Three runs of 30 recorded steps of each of these, as traces in folders of these names. They run in turn: what
/// others take of the machine meanwhile they take of all. The faulty one's loader waits for a slow disk.
fn record<const COUNT: usize>(
    directory: &Path,
    trainings: [(&str, &[&str]); COUNT],
) -> [PathBuf; COUNT] {
    for run in 0..3 {
        for (name, faults) in trainings {
            let filename = format!("run-{run}");
            let mut arguments = vec!["--profiler", "tensor", "--epochs", "2", "--batch-size", "16"];
            arguments.extend(["--limit-batches", "20", "--slow-disk", "40"]);
            arguments.extend(["--filename", &filename, "--dirpath", name]);
            arguments.extend(["--schedule", "wait=1,warmup=1,active=30,repeat=1"]);
            let faults = faults.join(",");
            if !faults.is_empty() {
                arguments.extend(["--faults", &faults]);
            }
            let run = Run::of(&build(PACKAGE, "candle-faults"), directory).args(&arguments);
            run.succeed();
        }
    }
    trainings.map(|(name, _)| directory.join(name))
}

fn mlprof(arguments: &[&str]) -> Output {
    Command::new(build("mlprof", "mlprof")).args(arguments).output().expect("it was built")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

/// By less than a half is what a machine does that others use, too.
fn diff(one: &Path, other: &Path) -> Output {
    mlprof(&["diff", text(one), text(other), "--json", "--fail-above", "50%"])
}

#[test]
fn equal_trainings_are_equal() {
    // Others may take more of the machine while one of them runs, but hardly each time.
    let are_equal = |_| {
        let directory = tempdir().expect("a folder");
        let [before, again] = record(directory.path(), [("before", &[]), ("again", &[])]);
        let output = diff(&before, &again);
        let said = String::from_utf8_lossy(&output.stderr);
        println!("{:?} {said}", output.status);
        (output.status.code(), &*said) == (Some(0), "")
    };
    assert!((0..3).any(are_equal));
}

#[test]
fn a_slower_loader_is_named() {
    let directory = tempdir().expect("a folder");
    let [before, slower] = record(directory.path(), [("before", &[]), ("slower", &["loader"])]);
    let output = diff(&before, &slower);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let is_loader = |line: &&str| {
        line.starts_with("regression: trace, fit: Actions: ")
            && line.contains("train_dataloader_next: slower, ")
    };
    assert_eq!(said.lines().filter(is_loader).count(), 1, "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let part = &json["parts"][0];
    assert_eq!((&part["before"]["runs"], &part["after"]["steps"]), (&3.into(), &30.into()));
    let tables = part["tables"].as_array().expect("tables");
    let subjects: Vec<_> = tables.iter().filter_map(|table| table["subject"].as_str()).collect();
    assert_eq!(subjects, ["steps", "actions", "modules"], "neither ops nor devices are recorded");
    // Their tables, without slices, say the same.
    let tables = directory.path().join("tables");
    for (name, folder) in [("before", &before), ("slower", &slower)] {
        let traces = folder.read_dir().expect("a folder").flatten().map(|entry| entry.path());
        let trace = traces.filter(|path| text(path).ends_with(".pt.trace.json.gz")).min();
        let into = tables.join(name);
        let trace = trace.expect("a trace");
        let output = mlprof(&["convert", text(&trace), "--to", "parquet", "-o", text(&into)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::remove_dir_all(into.join("slices")).expect("it is there");
    }
    let output = diff(&tables.join("before"), &tables.join("slower"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().filter(is_loader).count(), 1, "{said}");
}
