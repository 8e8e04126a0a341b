//! Checks that a change which slows down a training is reported, and that equal trainings are
//! reported as equal.

use std::path::Path;

use mlprof_core::Report;
use mlprof_core::report::comparison::compare;
use tempfile::tempdir;
use tests::program::{Run, build};

use crate::PACKAGE;

/// Relative slowdown below which differences may be caused by other programs.
const HALF: f64 = 0.5;

fn fit(directory: &Path, faults: &[&str]) -> Report {
    let arguments = ["--profiler", "simple", "--json", "fit.json", "--epochs", "2"];
    let run = Run::of(&build(PACKAGE, "candle-faults"), directory).args(arguments);
    let run = if faults.is_empty() { run } else { run.args(["--faults", &faults.join(",")]) };
    run.succeed();
    let json = std::fs::read_to_string(directory.join("fit.json")).expect("a file");
    let mut reports: Vec<Report> = serde_json::from_str(&json).expect("reports");
    reports.remove(0)
}

#[test]
fn a_slower_loader_is_named_and_equal_trainings_are_equal() {
    // A loaded machine may slow down one of many rows in all three runs, but not in repeated
    // attempts.
    let is_same = (0..3).any(|_| {
        let [before, again] = in_turns([&[], &[]]);
        let same = compare(&before, &again).expect("of one program");
        println!("{}", same.text());
        same.regressions(HALF).is_empty()
    });
    assert!(is_same, "equal trainings are equal");
    let [before, slower] = in_turns([&[], &["loader"]]);
    let comparison = compare(&before, &slower).expect("of one program");
    let regressions = comparison.regressions(HALF);
    let is_loader = |name: &str| name.ends_with("train_dataloader_next");
    assert!(regressions.iter().any(|it| is_loader(&it.name)), "{}", comparison.text());
    // A single run of each side is sufficient.
    let one = compare(&before[..1], &slower[..1]).expect("of one program");
    assert!(one.regressions(HALF).iter().any(|it| is_loader(&it.name)), "{}", one.text());
}

/// Returns three runs of each side, which alternate so that the machine's load affects both sides
/// equally.
fn in_turns(faults: [&[&str]; 2]) -> [Vec<Report>; 2] {
    let directory = tempdir().expect("a folder");
    let mut reports = [Vec::new(), Vec::new()];
    for _ in 0..3 {
        for (reports, faults) in reports.iter_mut().zip(faults) {
            reports.push(fit(directory.path(), faults));
        }
    }
    reports
}
