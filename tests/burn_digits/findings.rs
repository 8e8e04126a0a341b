//! Tests findings of the unmodified example, and of the program with faults before and after each
//! fault is fixed.

use std::path::Path;

use mlprof_core::Report;
use mlprof_core::report::finding::Confidence;
use mlprof_core::report::findings::Rules;
use serde_json::Value;
use tempfile::tempdir;
use tests::findings::{Faulty, assert_healthy, of_rule, told};
use tests::program::{Run, build};
use tests::tries::assert_in_one_of_three;

/// Expected finding, because tests do not optimise burn.
const UNOPTIMIZED: &str = "unoptimized-build";

#[test]
fn a_healthy_training_gives_nothing_above_a_hint_but_for_its_build() {
    assert_in_one_of_three(|| {
        let directory = tempdir().expect("a folder");
        assert_healthy(&crate::digits(), directory.path(), &[], &[UNOPTIMIZED]);
        let schedule = ["--schedule", "wait=2,warmup=1,active=30"];
        assert_healthy(&crate::digits(), directory.path(), &schedule, &[UNOPTIMIZED]);
    });
}

/// Checks programs without report files, for which the console must print no findings above a hint.
#[test]
fn other_healthy_programs_give_nothing_above_a_hint_but_for_their_build() {
    assert_in_one_of_three(|| {
        for program in ["burn-hand-written-loop", "custom-profiler"] {
            let directory = tempdir().expect("a folder");
            let printed =
                Run::of(&build("burn-digits", program), directory.path()).succeed().stdout;
            let found = told(&printed);
            assert!(found.iter().all(|line| line.contains("opt-level")), "{program}: {found:#?}");
        }
    });
}

/// Runs a fit of a few seconds with this fault, or without any.
fn fit(directory: &Path, fault: Option<&str>, arguments: &[&str]) -> Faulty {
    let faults: &[&str] = match fault {
        Some(fault) => &["--faults", fault],
        None => &[],
    };
    let finished = Run::of(&build("burn-digits", "burn-faults"), directory)
        .args(["--profiler", "simple", "--json", "fit.json"])
        .args(arguments)
        .args(faults)
        .succeed();
    Faulty::new(&directory.join("fit.json"), &finished)
}

/// Returns the rules that find more than a hint in a run of this length, and their cost in seconds.
/// By default, rules skip a run that took less than a second.
fn found_in_a_short_run(report: &Value) -> Vec<(String, f64)> {
    let report: Report = serde_json::from_value(report.clone()).expect("a report");
    let mut rules = Rules::new();
    rules.set("all.least-seconds", 0.0).expect("there is such a threshold");
    let findings = rules.apply(&report).into_iter();
    let sure = findings.filter(|finding| finding.confidence > Confidence::Hint);
    sure.map(|finding| (finding.rule, finding.cost.seconds)).collect()
}

/// Asserts that a fault is found and that its remedy uses burn's terms. Most of such a fault's cost
/// is waiting for a simulated slow disk.
///
/// After the fix, no rule may report more than a quarter of the waits. Single hooks take longer on
/// a loaded machine, which is more than a hint in a run of a second.
fn assert_found(fault: &str, rule: &str, arguments: &[&str], remedy: &str) {
    assert_in_one_of_three(|| {
        let directory = tempdir().expect("a folder");
        let mended = fit(directory.path(), None, arguments);
        let faulty = fit(directory.path(), Some(fault), arguments);
        let found = found_in_a_short_run(&mended.report);
        assert!(found.iter().any(|(rule, _)| rule == UNOPTIMIZED), "{found:?}");
        let others = found.iter().filter(|(rule, _)| rule != UNOPTIMIZED);
        let most = others.map(|(_, seconds)| *seconds).fold(0.0, f64::max);
        assert!(most < 0.25 * faulty.waited_seconds, "{found:?}");
        faulty.assert_saves_what_was_promised(rule, &mended);
        let told = of_rule(&faulty.report, rule)[0]["remedy"].as_str().expect("text");
        assert!(told.contains(remedy), "{told}");
    });
}

/// Options for 40 small batches. If burn's other threads wait for the disk, training continues
/// meanwhile, and this overlap is not part of the prediction.
const BATCHES: [&str; 8] =
    ["--epochs", "1", "--limit-digits", "160", "--batch-size", "4", "--slow-disk", "80"];

#[test]
fn a_slow_loader_is_found_until_it_is_mended_which_saves_what_was_promised() {
    assert_found("loader", "data-waiting", &BATCHES, "num_workers");
}

#[test]
fn a_slow_metric_is_found_until_it_is_mended_which_saves_what_was_promised() {
    assert_found("metrics", "slow-hooks", &BATCHES, "fewer metrics in training");
}

#[test]
fn a_slow_renderer_is_found_until_it_is_mended_which_saves_what_was_promised() {
    assert_found("renderer", "slow-hooks", &BATCHES, "a renderer that draws less");
}

/// Checks slow checkpoints. A burn thread writes them, and training waits for it at the second next
/// checkpoint.
#[test]
fn slow_checkpoints_are_found_until_they_are_mended_which_saves_what_was_promised() {
    let epochs = ["--epochs", "12", "--limit-digits", "160", "--batch-size", "32"];
    let epochs = [&epochs[..], &["--slow-disk", "300"]].concat();
    assert_found("checkpoints", "checkpoints", &epochs, "with_checkpointing_strategy");
}
