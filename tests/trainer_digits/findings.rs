//! What is found in programs with faults, and no longer once they are mended.

use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;
use tests::program::{Run, build};

use crate::{PACKAGE, program};

/// Each fault of the program, and the rule that finds it.
const FAULTS: [(&str, &str); 3] =
    [("loader", "data-waiting"), ("validation", "frequent-validation"), ("logger", "slow-hooks")];

/// A fit with these faults, and what was printed. On one thread, so that its CPU time says how long it
/// takes, whatever else the machine does.
fn fit(directory: &Path, faults: &[&str]) -> (Value, String) {
    let list = faults.join(",");
    let run = Run::of(&build(PACKAGE, "candle-faults"), directory)
        .args(["--profiler", "simple", "--measure-cpu", "--json", "fit.json"])
        .args(["--epochs", "3", "--batch-size", "16"])
        .env("RAYON_NUM_THREADS", "1");
    let run = if faults.is_empty() { run } else { run.args(["--faults", &list]) };
    let finished = run.succeed();
    (read(&directory.join("fit.json")).remove(0), finished.stdout)
}

fn read(file: &Path) -> Vec<Value> {
    let json = std::fs::read_to_string(file).expect("a file");
    serde_json::from_str(&json).expect("a list of reports")
}

/// CPU time of all training epochs, validation included.
fn cpu_seconds(report: &Value) -> f64 {
    let rows = report["actions"].as_array().expect("rows");
    let epochs = rows.iter().find(|row| row["action"] == "run_training_epoch").expect("epochs");
    epochs["cpu"]["process_seconds"].as_f64().expect("a number")
}

/// Findings that are more than hints: rule, and share of the run.
fn findings(report: &Value) -> Vec<(String, f64)> {
    let all = report["findings"].as_array().cloned().unwrap_or_default();
    let sure = all.iter().filter(|finding| finding["confidence"] != "hint");
    sure.map(|finding| {
        let rule = finding["rule"].as_str().expect("a name");
        (rule.to_owned(), finding["cost"]["share"].as_f64().expect("a number"))
    })
    .collect()
}

/// What mending saves is printed and not judged: two runs on a machine that others use, too, differ by more
/// than what is to be seen.
#[test]
fn three_faults_are_found_and_each_only_until_it_is_mended() {
    let directory = tempdir().expect("a folder");
    let names = FAULTS.map(|(fault, _)| fault);
    let (faulty, printed) = fit(directory.path(), &names);
    let promised = findings(&faulty);
    let mut rules: Vec<_> = promised.iter().map(|(rule, _)| rule.as_str()).collect();
    rules.sort_unstable();
    assert_eq!(rules, ["data-waiting", "frequent-validation", "slow-hooks"]);
    assert!(promised.is_sorted_by(|one, other| one.1 >= other.1), "{promised:?}");
    let lines = printed.lines().filter(|line| line.starts_with("Finding: ")).count();
    assert_eq!(lines, 3, "{printed}");
    let whole = cpu_seconds(&faulty);
    for (fault, rule) in FAULTS {
        let others: Vec<_> = names.iter().copied().filter(|name| *name != fault).collect();
        let (mended, _) = fit(directory.path(), &others);
        assert!(findings(&mended).iter().all(|(found, _)| found != rule), "{mended:#}");
        let saved = 1.0 - cpu_seconds(&mended) / whole;
        let (_, promise) = promised.iter().find(|(found, _)| found == rule).expect("found above");
        println!("{rule}: promised {promise:.3} of the run, saved {saved:.3} of its CPU time");
    }
}

#[test]
fn a_healthy_training_gives_nothing_above_a_hint() {
    let directory = tempdir().expect("a folder");
    for profiler in ["simple", "advanced", "tensor"] {
        let run = Run::of(&program(), directory.path())
            .args(["--profiler", profiler, "--json", "reports.json"])
            .succeed();
        assert!(!run.stdout.contains("Finding: "), "{}", run.stdout);
        for report in read(&directory.path().join("reports.json")) {
            assert_eq!(findings(&report), [], "{report:#}");
        }
    }
    let (healthy, _) = fit(directory.path(), &[]);
    assert_eq!(findings(&healthy), [], "{healthy:#}");
}
