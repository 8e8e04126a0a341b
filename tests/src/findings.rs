//! What is found in the reports that a program has written, and what mending it saved.

use std::path::Path;

use serde_json::Value;

use crate::program::{Finished, Run};

/// The reports in the file of a program's `--json`.
pub fn reports(file: &Path) -> Vec<Value> {
    let json = std::fs::read_to_string(file).expect("a file");
    serde_json::from_str(&json).expect("a list of reports")
}

/// How long the stage took, which is what findings are of.
pub fn wall_seconds(report: &Value) -> f64 {
    report["header"]["wall_seconds"].as_f64().expect("a number")
}

/// All findings of this rule.
pub fn of_rule<'report>(report: &'report Value, rule: &str) -> Vec<&'report Value> {
    let all = report["findings"].as_array().into_iter().flatten();
    all.filter(|finding| finding["rule"] == rule).collect()
}

/// Findings that are more than hints: rule, and the most that can be saved, in seconds.
pub fn sure(report: &Value) -> Vec<(String, f64)> {
    let all = report["findings"].as_array().into_iter().flatten();
    let sure = all.filter(|finding| finding["confidence"] != "hint");
    sure.map(|finding| {
        let rule = finding["rule"].as_str().expect("a name");
        (rule.to_owned(), finding["cost"]["seconds"].as_f64().expect("a number"))
    })
    .collect()
}

/// The lines in which a console report tells its findings, those above a hint.
pub fn told(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| line.starts_with("Finding: ")).collect()
}

/// A program with faults that has run.
#[derive(Debug)]
pub struct Faulty {
    /// Of its fit.
    pub report: Value,
    /// How long it has waited for its slow disk, in seconds: counted, whatever else the machine did. Or for a lock
    /// that another thread held meanwhile: measured.
    pub waited_seconds: f64,
}

impl Faulty {
    /// What the program has left: the first report of its `--json`, and what it said.
    pub fn new(file: &Path, finished: &Finished) -> Self {
        let waited_for = |what: &str| {
            finished.stderr.lines().find_map(|line| {
                let milliseconds = line.strip_prefix(what)?.strip_suffix(" ms")?;
                milliseconds.parse::<f64>().ok()
            })
        };
        // Where another thread waits for the disk, training waits for its lock.
        let waited =
            waited_for("waited for the lock: ").or_else(|| waited_for("waited for the disk: "));
        Self { report: reports(file).remove(0), waited_seconds: waited.unwrap_or(0.0) * 1e-3 }
    }

    /// `rule` finds in this what it promises to save, and in `mended` less than a quarter of that.
    ///
    /// The promise, in seconds, is compared with two figures and lies between them, but for 30 %:
    /// the waits for the disk that the program counted, which no other work of the machine changes,
    /// and the difference of both fits. Work that goes on beside the waits makes the first larger;
    /// a machine that is busy with something else moves the second.
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

/// Returns the seconds that the one finding of `rule` promises to save, if it is found.
fn promised_seconds(report: &Value, rule: &str) -> Option<f64> {
    let findings = of_rule(report, rule);
    assert!(findings.len() <= 1, "{rule} is found more than once: {report:#}");
    findings.first().map(|finding| finding["cost"]["seconds"].as_f64().expect("a number"))
}

/// No profiler finds more than a hint in a run of this program, but for what these rules find. All of them
/// look at one run, each by itself.
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
