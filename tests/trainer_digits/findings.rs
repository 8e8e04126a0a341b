//! What is found in programs with faults, and that mending them saves what was promised.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;
use tests::program::{Run, build};

use crate::{PACKAGE, program};

/// Each fault of the program, and the rule that finds it.
const FAULTS: [(&str, &str); 3] =
    [("loader", "data-waiting"), ("validation", "frequent-validation"), ("logger", "slow-hooks")];

/// What is promised may be so far off, as a part of what mending saves.
const TOLERANCE: f64 = 0.3;
/// What else the machine does may make one part of a run longer than another.
const ATTEMPTS: usize = 5;

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

/// What the fits with some of the faults took least, of several attempts: other work on the machine only
/// ever adds to it.
#[derive(Default)]
struct Fits(BTreeMap<Vec<&'static str>, (f64, Value)>);

impl Fits {
    /// One more attempt; the best there is, and what was printed now.
    fn fit(&mut self, directory: &Path, faults: &[&'static str]) -> (f64, Value, String) {
        let (report, printed) = fit(directory, faults);
        let taken = (cpu_seconds(&report), report);
        let best = self.0.entry(faults.to_vec()).or_insert_with(|| taken.clone());
        if taken.0 < best.0 {
            *best = taken;
        }
        (best.0, best.1.clone(), printed)
    }
}

#[test]
fn three_faults_are_found_in_their_order_and_mending_each_saves_what_was_promised() {
    let directory = tempdir().expect("a folder");
    let mut fits = Fits::default();
    let mut problems = Vec::new();
    for _ in 0..ATTEMPTS {
        match compare(&mut fits, directory.path()) {
            Ok(()) => return,
            Err(problem) => problems.push(problem),
        }
    }
    panic!("{problems:#?}");
}

/// Runs the program with all faults, and with each of them mended.
fn compare(fits: &mut Fits, directory: &Path) -> Result<(), String> {
    let names = FAULTS.map(|(fault, _)| fault);
    let (whole, faulty, printed) = fits.fit(directory, &names);
    let promised = findings(&faulty);
    let mut rules: Vec<_> = promised.iter().map(|(rule, _)| rule.as_str()).collect();
    rules.sort_unstable();
    if rules != ["data-waiting", "frequent-validation", "slow-hooks"] {
        return Err(format!("found {promised:?}"));
    }
    let lines = printed.lines().filter(|line| line.starts_with("Finding: ")).count();
    assert!((1..=3).contains(&lines), "{printed}");
    assert!(promised.is_sorted_by(|one, other| one.1 >= other.1), "{promised:?}");
    let mut saved = Vec::new();
    for (fault, rule) in FAULTS {
        let others: Vec<_> = names.iter().copied().filter(|name| *name != fault).collect();
        let (rest, mended, _) = fits.fit(directory, &others);
        assert!(findings(&mended).iter().all(|(found, _)| found != rule), "{mended:#}");
        saved.push((rule, 1.0 - rest / whole));
    }
    eprintln!("promised {promised:?}, saved {saved:?}");
    for (rule, share) in &saved {
        let (_, promise) =
            promised.iter().find(|(found, _)| found == rule).expect("it was found, see above");
        if (promise - share).abs() > TOLERANCE * share {
            return Err(format!("{rule}: promised {promise} of the run, saved {share}"));
        }
    }
    saved.sort_by(|one, other| other.1.total_cmp(&one.1));
    let order = promised.iter().map(|(rule, _)| rule.as_str());
    match saved.iter().map(|(rule, _)| *rule).eq(order) {
        true => Ok(()),
        false => Err(format!("promised {promised:?}, saved {saved:?}")),
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
