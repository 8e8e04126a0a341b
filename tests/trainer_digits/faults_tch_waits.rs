//! Tests findings of tch's program with faults that make steps wait for a disk, a lock, a core or
//! op calls. Most of these findings are hints.

use mlprof_core::Report;
use mlprof_core::report::findings::Rules;
use serde_json::Value;
use tempfile::tempdir;
use tests::findings::{Faulty, of_rule};
use tests::tries::{assert_in_one_of_three, assert_promise_is_kept};

use crate::faults_tch::{STEPS, fit, function, saved, seconds};

/// Runs a fit with these faults and arguments in a separate folder.
fn run(faults: &[&str], arguments: &[&str]) -> Faulty {
    let directory = tempdir().expect("a folder");
    fit(directory.path(), faults, arguments)
}

/// Checks a first step that reads 100 files, and every tenth of 160 steps, which writes five files.
#[test]
fn a_long_first_step_and_each_tenth_are_found_until_they_are_as_long_as_others() {
    assert_in_one_of_three(|| {
        let arguments = ["--profiler", "simple", "--epochs", "4", "--slow-disk", "20"];
        let faulty = run(&["first-step", "tenth-steps"], &arguments);
        for (rule, other) in [("first-batch", "tenth-steps"), ("uneven-steps", "first-step")] {
            faulty.assert_saves_what_was_promised(rule, &run(&[other], &arguments));
        }
    });
}

/// Returns the number of voluntary context switches of the training thread in batches. These are
/// waits, in contrast to preemptions by other programs.
fn gave_its_core_away(report: &Value) -> u64 {
    batches(report)["cpu"]["voluntary_switches"].as_u64().expect("a number")
}

/// Returns Simple's row of all training batches.
fn batches(report: &Value) -> &Value {
    let rows = report["actions"].as_array().expect("rows");
    rows.iter().find(|row| row["action"] == "run_training_batch").expect("batches")
}

/// Checks 240 steps that write one file each. Their other computation takes longer than a second,
/// as rules require.
#[test]
fn steps_that_wait_for_a_disk_are_found_until_they_do_not() {
    let arguments = ["--profiler", "simple", "--measure-cpu", "--slow-disk", "15"];
    let arguments = [&arguments[..], &["--epochs", "6", "--spectrum", "20"]].concat();
    let faulty = run(&["steps"], &arguments);
    let mended = run(&[], &arguments);
    assert!(gave_its_core_away(&faulty.report) >= 240, "{:#}", faulty.report);
    assert!(gave_its_core_away(&mended.report) < 240, "{:#}", mended.report);
    // Threads are also idle if other programs use the cores.
    if !of_rule(&mended.report, "idle-steps").is_empty() {
        println!("this machine is too busy to say more");
        return;
    }
    faulty.assert_saves_what_was_promised("idle-steps", &mended);
}

/// Checks 240 steps that wait for a thread, which writes a file each time while it holds a lock.
/// The program measures the waiting time itself.
#[cfg(target_os = "linux")]
#[test]
fn a_lock_that_is_held_while_a_file_is_written_is_found_until_it_is_not() {
    assert_in_one_of_three(|| {
        let arguments = ["--profiler", "advanced", "--sampled", "--slow-disk", "15"];
        let arguments = [&arguments[..], &["--epochs", "6", "--spectrum", "20"]].concat();
        let faulty = run(&["lock"], &arguments);
        faulty.assert_saves_what_was_promised("lock-waits", &run(&[], &arguments));
        let found = of_rule(&faulty.report, "lock-waits")[0];
        assert_eq!(found["confidence"], "likely");
        let source = found["place"]["source"].as_str().expect("where it is");
        assert!(source.contains("threads.rs"), "{found:#}");
    });
}

/// Checks thousands of small ops, which the fix replaces with a few ops on all rows.
#[test]
fn thousands_of_small_ops_are_found_until_they_are_a_few_large_ones() {
    let arguments = [&STEPS[..], &["--normalize", "--batch-size", "64"]].concat();
    assert_promise_is_kept(f64::max, || {
        let faulty = run(&["rows"], &arguments).report;
        let mended = run(&[], &arguments).report;
        assert!(of_rule(&mended, "tiny-ops").is_empty(), "{mended:#}");
        let [finding] = of_rule(&faulty, "tiny-ops")[..] else { panic!("{faulty:#}") };
        assert_eq!(finding["confidence"], "hint");
        (seconds(&finding["cost"]["seconds"]), saved("normalized", &faulty, &mended))
    });
}

/// Returns the rule's prediction, even if other programs use some of the cores. Other tests run in
/// parallel.
fn crowded(report: &Value) -> Option<f64> {
    let mut rules = Rules::new();
    rules.set("crowded-cores.busy", 0.2).expect("a threshold");
    let report: Report = serde_json::from_value(report.clone()).expect("a report");
    let found = rules.apply(&report).into_iter().find(|finding| finding.rule == "crowded-cores");
    found.map(|finding| finding.cost.seconds)
}

/// Asserts that the prediction matches the savings. It compares CPU time of the training thread,
/// which does not depend on other programs.
fn assert_crowded(run: impl Fn() -> [Value; 2]) {
    assert_promise_is_kept(f64::max, || {
        let [faulty, mended] = run();
        assert!(of_rule(&mended, "crowded-cores").is_empty(), "{mended:#}");
        let promised = crowded(&faulty).unwrap_or_else(|| panic!("nothing is found: {faulty:#}"));
        let computes = seconds(&batches(&mended)["cpu"]["thread_seconds"]);
        (promised, seconds(&batches(&faulty)["total_seconds"]) - computes)
    });
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_take_the_cores_from_training_are_found_until_they_are_gone() {
    let arguments = ["--profiler", "simple", "--measure-cpu", "--epochs", "4"];
    assert_crowded(|| [&["pollers"][..], &[]].map(|faults| run(faults, &arguments).report));
}

/// Checks too many threads per op, which the fix reduces to one.
#[cfg(target_os = "linux")]
#[test]
fn more_threads_for_each_op_than_cores_are_found_until_they_are_fewer() {
    let cores = std::thread::available_parallelism().expect("cores").get();
    let with = |threads: usize| {
        let threads = threads.to_string();
        let arguments = ["--profiler", "simple", "--measure-cpu", "--batch-size", "256"];
        run(&[], &[&arguments[..], &["--epochs", "5", "--threads", &threads]].concat()).report
    };
    assert_crowded(|| [with(8 * cores), with(1)]);
}

/// Checks a multiplication of 1024 × 1024 matrices on one thread. The savings depend on cores that
/// other programs may use, so they are printed and not asserted. docs/dev/findings-validation.md
/// contains measured values.
#[test]
fn long_ops_that_one_thread_works_on_are_found_until_all_cores_do() {
    assert_in_one_of_three(|| {
        let cores = std::thread::available_parallelism().expect("cores").get();
        if cores == 1 {
            println!("this machine has one core");
            return;
        }
        let with = |threads: usize| {
            let threads = threads.to_string();
            let arguments = ["--epochs", "4", "--batch-size", "128", "--spectrum", "32"];
            run(&[], &[&STEPS[..4], &arguments, &["--threads", &threads]].concat()).report
        };
        let (faulty, mended) = (with(1), with(cores));
        assert!(of_rule(&mended, "idle-cores").is_empty(), "{mended:#}");
        let [finding] = of_rule(&faulty, "idle-cores")[..] else { panic!("{faulty:#}") };
        assert_eq!(finding["confidence"], "hint");
        assert_eq!(finding["place"]["op"], "aten::mm");
        let promised = seconds(&finding["cost"]["seconds"]);
        let whole = seconds(&function(&faulty, "spectrum")["cpu_seconds"]);
        let most = whole * (1.0 - 1.0 / cores as f64);
        // The layers also multiply matrices, which this function does not count.
        assert!(
            0.5 * most < promised && promised <= 1.1 * most,
            "{promised} s promised of {whole} s"
        );
        let quickest =
            |report: &Value| seconds(&function(report, "spectrum")["rest"]["min_seconds"]);
        let saved = whole * (1.0 - quickest(&mended) / quickest(&faulty));
        println!("{promised} s promised, {saved} s of {whole} s saved");
    });
}
