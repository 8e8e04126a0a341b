//! What is found in the example as it is, and in the program with faults until they are mended.

use std::path::Path;

use profiler_core::Report;
use profiler_core::report::finding::Confidence;
use profiler_core::report::findings::Rules;
use serde_json::Value;
use tempfile::tempdir;
use tests::findings::{Faulty, assert_healthy, of_rule};
use tests::program::{Run, build};

/// What tests build of burn is not optimised.
const UNOPTIMIZED: &str = "unoptimized-build";

#[test]
fn a_healthy_training_gives_nothing_above_a_hint_but_for_its_build() {
    let directory = tempdir().expect("a folder");
    assert_healthy(&crate::digits(), directory.path(), &[], &[UNOPTIMIZED]);
    let schedule = ["--schedule", "wait=2,warmup=1,active=30"];
    assert_healthy(&crate::digits(), directory.path(), &schedule, &[UNOPTIMIZED]);
}

/// A fit with this fault, or without any.
fn fit(directory: &Path, fault: Option<&str>) -> Faulty {
    let faults: &[&str] = match fault {
        Some(fault) => &["--faults", fault],
        None => &[],
    };
    let finished = Run::of(&build("burn-digits", "burn-faults"), directory)
        .args(["--profiler", "simple", "--json", "fit.json"])
        .args(["--epochs", "2", "--batch-size", "64", "--slow-disk", "60"])
        .args(faults)
        .succeed();
    Faulty::new(&directory.join("fit.json"), &finished)
}

/// Rules by default do not look at one that takes less than a second.
fn found_in_a_short_run(report: &Value) -> Vec<String> {
    let report: Report = serde_json::from_value(report.clone()).expect("a report");
    let mut rules = Rules::new();
    rules.set("all.least-seconds", 0.0).expect("there is such a threshold");
    let findings = rules.apply(&report).into_iter();
    let sure = findings.filter(|finding| finding.confidence > Confidence::Hint);
    sure.map(|finding| finding.rule).collect()
}

/// Most of what it costs is waiting for a slow disk. The remedy is told in burn's words.
#[test]
fn a_slow_loader_is_found_until_it_is_mended_which_saves_what_was_promised() {
    let directory = tempdir().expect("a folder");
    let mended = fit(directory.path(), None);
    assert_eq!(found_in_a_short_run(&mended.report), [UNOPTIMIZED]);
    let faulty = fit(directory.path(), Some("loader"));
    faulty.assert_saves_what_was_promised("data-waiting", &mended);
    let told = of_rule(&faulty.report, "data-waiting")[0]["remedy"].as_str().expect("text");
    assert!(told.contains("num_workers"), "{told}");
}
