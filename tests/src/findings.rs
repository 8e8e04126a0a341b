//! Reads findings from a program's reports, and compares them with the savings after a fix.

use std::path::Path;

use serde_json::Value;

use crate::program::{Finished, Run};

/// Returns the reports in the file of a program's `--json` option.
pub fn reports(file: &Path) -> Vec<Value> {
    let json = std::fs::read_to_string(file).expect("a file");
    serde_json::from_str(&json).expect("a list of reports")
}

/// Returns the duration of the stage, to which findings refer.
pub fn wall_seconds(report: &Value) -> f64 {
    report["header"]["wall_seconds"].as_f64().expect("a number")
}

/// Returns all findings of this rule.
pub fn of_rule<'report>(report: &'report Value, rule: &str) -> Vec<&'report Value> {
    let all = report["findings"].as_array().into_iter().flatten();
    all.filter(|finding| finding["rule"] == rule).collect()
}

/// Returns findings above a hint: the rule, and the maximum savings in seconds.
pub fn sure(report: &Value) -> Vec<(String, f64)> {
    let all = report["findings"].as_array().into_iter().flatten();
    let sure = all.filter(|finding| finding["confidence"] != "hint");
    sure.map(|finding| {
        let rule = finding["rule"].as_str().expect("a name");
        (rule.to_owned(), finding["cost"]["seconds"].as_f64().expect("a number"))
    })
    .collect()
}

/// Returns the lines of a console report with findings above a hint.
pub fn told(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| line.starts_with("Finding: ")).collect()
}

/// The results of a program with faults.
#[derive(Debug)]
pub struct Faulty {
    /// Report of the program's fit.
    pub report: Value,
    /// Waiting time in seconds. For the simulated slow disk it is counted and does not depend on
    /// the machine's load. For a lock held by another thread it is measured.
    pub waited_seconds: f64,
}

impl Faulty {
    /// Reads the first report in `file` (option `--json`) and the waiting time in the program's
    /// output.
    pub fn new(file: &Path, finished: &Finished) -> Self {
        let waited_for = |what: &str| {
            finished.stderr.lines().find_map(|line| {
                let milliseconds = line.strip_prefix(what)?.strip_suffix(" ms")?;
                milliseconds.parse::<f64>().ok()
            })
        };
        // If another thread waits for the disk, training waits for that thread's lock.
        let waited =
            waited_for("waited for the lock: ").or_else(|| waited_for("waited for the disk: "));
        Self { report: reports(file).remove(0), waited_seconds: waited.unwrap_or(0.0) * 1e-3 }
    }

    /// Asserts that `rule` predicts the savings of a fix for this run, and less than a quarter of
    /// that for `mended`.
    ///
    /// The prediction, in seconds, must lie between two values with a tolerance of 30 %. The first
    /// value is the counted waiting time for the disk, which is independent of the machine's load.
    /// The second value is the difference between the two fits. Work that overlaps the waits
    /// increases the first value. Other programs affect the second value.
    pub fn assert_saves_what_was_promised(&self, rule: &str, mended: &Self) {
        let promised = promised_seconds(&self.report, rule);
        let promised = promised.unwrap_or_else(|| panic!("{rule} is not found: {:#}", self.report));
        let left = promised_seconds(&mended.report, rule).unwrap_or(0.0);
        let waits = self.waited_seconds - mended.waited_seconds;
        let shorter = wall_seconds(&self.report) - wall_seconds(&mended.report);
        let figures = format!(
            "{rule}: {promised:.2} s promised ({left:.2} s once mended), {waits:.2} s of waits \
             saved, the fit is {shorter:.2} s shorter"
        );
        println!("{figures}");
        let [least, most] = [waits.min(shorter), waits.max(shorter)];
        assert!(promised >= 0.7 * least && promised <= 1.3 * most, "{figures}");
        assert!(left < 0.25 * promised, "{figures}");
    }
}

/// Returns the savings in seconds that the only finding of `rule` predicts, if there is one.
fn promised_seconds(report: &Value, rule: &str) -> Option<f64> {
    let findings = of_rule(report, rule);
    assert!(findings.len() <= 1, "{rule} is found more than once: {report:#}");
    findings.first().map(|finding| finding["cost"]["seconds"].as_f64().expect("a number"))
}

/// Asserts that no profiler reports more than a hint in a run of this program, except for the rules
/// in `known`. Each profiler observes a separate run.
pub fn assert_healthy(program: &Path, directory: &Path, arguments: &[&str], known: &[&str]) {
    let run = Run::of(program, directory)
        .args(["--profiler", "simple+advanced+tensor", "--json", "reports.json"])
        .args(arguments)
        .on_all_threads()
        .succeed();
    assert!(!known.is_empty() || told(&run.stdout).is_empty(), "{}", run.stdout);
    let reports = reports(&directory.join("reports.json"));
    for profiler in ["simple", "advanced", "tensor"] {
        let is_there = reports.iter().any(|report| report["profiler"] == profiler);
        assert!(is_there, "no report of {profiler}");
    }
    for report in reports {
        let found = sure(&report);
        assert!(found.iter().all(|(rule, _)| known.contains(&&**rule)), "{report:#}");
    }
}
