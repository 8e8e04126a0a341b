//! Tests `mlprof diff` with traces of real trainings: a slower loader is reported, and equal
//! trainings are reported as equal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;
use tests::program::{Run, build};

use crate::PACKAGE;

/// Records three runs of 30 steps for each set of faults, as traces in folders with these names.
/// The runs alternate, so that the machine's load affects all of them equally. The faulty loader
/// waits for a simulated slow disk.
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

/// Runs `mlprof diff` with a threshold of one half, because other programs may cause smaller
/// differences.
fn diff(one: &Path, other: &Path) -> Output {
    mlprof(&["diff", text(one), text(other), "--json", "--fail-above", "50%"])
}

#[test]
fn equal_trainings_are_equal() {
    // Other programs may disturb one attempt, but hardly all of them.
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
    // The tables of the traces, without slices, yield the same result.
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
