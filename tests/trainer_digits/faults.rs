//! Tests findings of candle's program with faults, before and after each fault is fixed.

use std::path::Path;

#[cfg(target_os = "linux")]
use mlprof_core::Report;
#[cfg(target_os = "linux")]
use mlprof_core::report::findings::Rules;
#[cfg(target_os = "linux")]
use serde_json::Value;
use tempfile::{TempDir, tempdir};
use tests::findings::{Faulty, of_rule, reports, sure, told, wall_seconds};
use tests::program::{Finished, Run, Running, build};
use tests::tries::{assert_in_one_of_three, assert_promise_is_kept};

use crate::PACKAGE;

/// Each fault of the program, and the rule that finds it.
const FAULTS: [(&str, &str); 3] =
    [("loader", "data-waiting"), ("validation", "frequent-validation"), ("logger", "slow-hooks")];

/// Prepares a fit with these faults. Most of their cost is waiting for a simulated slow disk.
fn fit(directory: &Path, profiler: &[&str], faults: &[&str]) -> Run {
    let list = faults.join(",");
    let run = Run::of(&build(PACKAGE, "candle-faults"), directory)
        .args(["--profiler"].iter().chain(profiler))
        .args(["--json", "fit.json", "--epochs", "2", "--batch-size", "16"])
        .args(["--limit-batches", "20", "--slow-disk", "40"]);
    if faults.is_empty() { run } else { run.args(["--faults", &list]) }
}

/// Runs the fits under Simple in parallel, because they mostly wait.
fn simple<'faults>(faults: impl IntoIterator<Item = Vec<&'faults str>>) -> Vec<(Faulty, Finished)> {
    let start = |faults: Vec<&str>| {
        let directory = tempdir().expect("a folder");
        let running = fit(directory.path(), &["simple"], &faults).start();
        (directory, running)
    };
    let running: Vec<_> = faults.into_iter().map(start).collect();
    let finish = |(directory, running): (TempDir, Running)| {
        let finished = running.finish();
        assert!(finished.status.success(), "{finished:#?}");
        (Faulty::new(&directory.path().join("fit.json"), &finished), finished)
    };
    running.into_iter().map(finish).collect()
}

#[test]
fn three_faults_are_found_each_until_it_is_mended_which_saves_what_was_promised() {
    assert_in_one_of_three(|| {
        let names = FAULTS.map(|(fault, _)| fault);
        let without = |fault| names.into_iter().filter(move |name| *name != fault).collect();
        let mut runs = simple([names.to_vec()].into_iter().chain(names.map(without)));
        let mended = runs.split_off(1);
        let (faulty, finished) = runs.remove(0);
        let promised = sure(&faulty.report);
        let rules: Vec<_> = promised.iter().map(|(rule, _)| rule.as_str()).collect();
        // The program reads 120 files for validation and 80 for training, and writes 40 files.
        assert_eq!(rules, ["frequent-validation", "data-waiting", "slow-hooks"], "{promised:?}");
        assert!(promised.is_sorted_by(|one, other| one.1 >= other.1), "{promised:?}");
        assert_eq!(told(&finished.stdout).len(), 3, "{}", finished.stdout);
        for ((_, rule), (mended, _)) in FAULTS.into_iter().zip(&mended) {
            faulty.assert_saves_what_was_promised(rule, mended);
        }
    });
}

/// Checks that a finding of two profilers is printed only once, with the values of the whole fit.
#[test]
fn two_profilers_say_once_what_both_found() {
    let directory = tempdir().expect("a folder");
    let schedule = "wait=1,warmup=1,active=30,repeat=1";
    let both = ["tensor+simple", "--schedule", schedule];
    let printed = fit(directory.path(), &both, &["logger"]).succeed().stdout;
    let reports = reports(&directory.path().join("fit.json"));
    let [tensor, simple] = &reports[..] else { panic!("{} reports", reports.len()) };
    assert_eq!((&simple["profiler"], &tensor["profiler"]), (&"simple".into(), &"tensor".into()));
    for report in [simple, tensor] {
        assert_eq!(of_rule(report, "slow-hooks").len(), 1, "{report:#}");
    }
    let sentence = of_rule(simple, "slow-hooks")[0]["sentence"].as_str().expect("text");
    // The share is removed, because the JSON values are measured slightly later.
    let (sentence, _share) = sentence.rsplit_once(" (").expect("a share");
    let [line] = told(&printed)[..] else { panic!("one line: {printed}") };
    assert!(line.contains(sentence), "{printed}");
    let below = printed.split(line).nth(1).expect("it is there");
    assert!(!below.contains("FIT Profiler Report"), "below both reports: {printed}");
}

/// Checks the finding about more threads per op than cores. It compares the fastest batches of both
/// runs, which other programs did not slow down. The first batch is excluded, because it starts the
/// threads.
#[cfg(target_os = "linux")]
#[test]
fn more_threads_for_each_op_than_cores_are_found_until_they_are_fewer() {
    let cores = std::thread::available_parallelism().expect("cores").get();
    let with = |threads: usize| {
        let directory = tempdir().expect("a folder");
        let arguments = ["--profiler", "simple", "--measure-cpu", "--json", "fit.json"];
        Run::of(&build(PACKAGE, "candle-faults"), directory.path())
            .args(arguments)
            .args(["--epochs", "4", "--batch-size", "64"])
            .env("RAYON_NUM_THREADS", threads.to_string())
            .succeed();
        let mut report: Value = reports(&directory.path().join("fit.json")).remove(0);
        let is_found = !of_rule(&report, "crowded-cores").is_empty();
        // Other tests run in parallel and use some of the cores.
        let promised = found_where_others_have_cores(&report, "crowded-cores");
        let rows = report["actions"].take();
        let batches = rows.as_array().expect("rows").iter();
        let row = batches.clone().find(|row| row["action"] == "run_training_batch");
        let seconds = |value: &Value| value.as_f64().expect("a number");
        let row = row.expect("batches");
        let (total, quickest) = (&row["total_seconds"], &row["rest"]["min_seconds"]);
        (is_found, promised, seconds(total), seconds(quickest))
    };
    assert_promise_is_kept(f64::max, || {
        let (_, promised, total, quickest) = with(8 * cores);
        let (is_found, _, _, quickest_mended) = with(cores);
        let promised = promised.expect("it is found");
        if is_found {
            println!(
                "found with as many threads as cores, as others had these: not one of the tries"
            );
            return (promised, f64::NAN);
        }
        (promised, total * (1.0 - quickest_mended / quickest))
    });
}

/// Returns the savings that a rule predicts for a report, even if other programs use some of the
/// cores.
#[cfg(target_os = "linux")]
fn found_where_others_have_cores(report: &Value, rule: &str) -> Option<f64> {
    let mut rules = Rules::new();
    rules.set("crowded-cores.busy", 0.2).expect("a threshold");
    let report: Report = serde_json::from_value(report.clone()).expect("a report");
    let found = rules.apply(&report).into_iter().find(|finding| finding.rule == rule);
    found.map(|finding| finding.cost.seconds)
}

/// Checks an evaluation that keeps the computation graph. The number of kept outputs is exact, but
/// the savings depend on threads and on other programs.
#[test]
fn an_evaluation_that_keeps_what_only_training_needs_is_found_until_it_no_longer_does() {
    let test = |faults: &[&str]| {
        let directory = tempdir().expect("a folder");
        // The run takes more than a second even on a fast machine, because rules ignore shorter
        // runs.
        let arguments = ["--profiler", "simple", "--json", "fit.json", "--epochs", "10"];
        let run = Run::of(&build(PACKAGE, "candle-faults"), directory.path()).args(arguments);
        // Validation takes a large share of the time, so that the rest does not hide it.
        let all = [&["validation"], faults].concat().join(",");
        run.args(["--limit-batches", "20", "--faults", &all]).succeed();
        reports(&directory.path().join("fit.json")).remove(0)
    };
    let outputs = |report: &serde_json::Value, which: &str| {
        report["header"]["frameworks"][0]["evaluated"][which].as_u64().expect("a number")
    };
    let (faulty, mended) = (test(&["gradients"]), test(&[]));
    assert!(of_rule(&mended, "gradients-in-evaluation").is_empty(), "{mended:#}");
    let [finding] = of_rule(&faulty, "gradients-in-evaluation")[..] else { panic!("{faulty:#}") };
    assert_eq!(
        (&finding["confidence"], &finding["cost"]["is_estimated"]),
        (&"hint".into(), &true.into())
    );
    assert_eq!(outputs(&faulty, "remembered"), outputs(&faulty, "outputs"));
    assert_eq!(
        (outputs(&mended, "remembered"), outputs(&mended, "outputs")),
        (0, outputs(&faulty, "outputs"))
    );
}

#[test]
fn without_a_fault_nothing_is_found() {
    assert_in_one_of_three(|| {
        let directory = tempdir().expect("a folder");
        Run::of(&build(PACKAGE, "candle-faults"), directory.path())
            .args(["--profiler", "simple", "--json", "fit.json", "--batch-size", "8"])
            .succeed();
        let healthy = reports(&directory.path().join("fit.json")).remove(0);
        assert!(wall_seconds(&healthy) > 1.0, "else rules do not look at it");
        assert_eq!(sure(&healthy), [], "{healthy:#}");
    });
}
