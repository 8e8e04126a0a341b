//! Tests the Simple report of a real training.

use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::Run;
use tests::table::Table;

use crate::{digits, short_run};

/// Checks the output of a training as shown in the README, with only `--profiler simple`.
#[test]
fn a_training_prints_its_reports_and_learns() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&digits(), directory.path()).args(["--profiler", "simple"]).succeed();
    let accuracy = test_accuracy(&run.stdout);
    assert!(accuracy > 95.0 && accuracy <= 100.0, "{accuracy}");
    let fit = run.stdout.find("FIT Profiler Report").expect("a report of fit");
    let test = run.stdout.find("TEST Profiler Report").expect("a report of the test");
    assert!(fit < test, "in the order of the stages");
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
}

#[test]
fn the_table_adds_up() {
    const EPOCHS: u64 = 2;
    let directory = tempdir().expect("a folder");
    let run = Run::of(&digits(), directory.path());
    let run = run.args(["--profiler", "simple", "--epochs", "2", "--batch-size", "48"]).succeed();
    let fit = Table::find("FIT", &run.stdout);

    assert_eq!(fit.row("run_training_epoch").calls, EPOCHS);
    let batches = fit.row("run_training_batch").calls;
    assert_eq!(batches % EPOCHS, 0, "as many batches in every epoch");
    assert!(batches / EPOCHS >= 1_000 / 48, "over a thousand digits to learn from");
    for once_per_batch in ["Optimizer.step", "lr_scheduler_step"] {
        assert_eq!(fit.row(once_per_batch).calls, batches, "{once_per_batch}");
    }
    assert_eq!(fit.row_ending(".training_step").calls, batches);
    let fetched = fit.row("[_TrainingEpochLoop].train_dataloader_next").calls;
    assert_eq!(fetched, batches + EPOCHS, "each epoch asks once more and finds the end");
    let validated = fit.row_ending(".validation_step").calls;
    assert_eq!(fit.row("[_EvaluationLoop].val_next").calls, validated + EPOCHS);

    assert_eq!(fit.total.calls, fit.rows.iter().map(|row| row.calls).sum::<u64>());
    assert!(fit.rows.windows(2).all(|pair| pair[0].total >= pair[1].total), "longest first");
    for row in &fit.rows {
        let mean = row.mean.expect("every row has a mean");
        assert_close(mean * row.calls as f64, row.total, &row.action);
        if let Some(percentage) = row.percentage {
            assert_close(100.0 * row.total / fit.total.total, percentage, &row.action);
        }
    }
    let time = |action: &str| fit.row(action).total;
    let inside =
        fit.row_ending(".training_step").total + time("Optimizer.step") + time("lr_scheduler_step");
    assert!(inside <= time("run_training_batch") * 1.0001, "parts are inside the whole");
    assert!(inside >= time("run_training_batch") * 0.9, "and are nearly all of it");
    // The start-up rows concern the process, so only its first report has them.
    if cfg!(target_os = "linux") {
        let (startup, part) = ("process_startup", "process_startup_before_main");
        assert_eq!((fit.row(startup).calls, fit.row(part).calls), (1, 1));
        assert!(time(part) <= time(startup), "the part is inside the whole");
        assert!((1e-6..60.0).contains(&time(startup)), "{}", time(startup));
    }
    let test = Table::find("TEST", &run.stdout);
    assert!(test.rows.iter().all(|row| !row.action.starts_with("process_startup")));
    let epoch = time("run_training_epoch");
    assert!(
        time("run_training_batch") + time("[_TrainingEpochLoop].train_dataloader_next") <= epoch
    );
    assert!(epoch <= fit.total.total);
    let waiting = time("[_TrainingEpochLoop].train_dataloader_next");
    let said: Vec<_> =
        run.stdout.lines().filter(|line| line.starts_with("Waiting for data: ")).collect();
    let [line] = said.as_slice() else { panic!("once, for fit, and not for the test: {said:?}") };
    let share = line.rsplit_once('(').and_then(|(_, share)| share.strip_suffix(" %)"));
    let share: f64 = share.and_then(|share| share.parse().ok()).expect("a percentage");
    assert!((share - 100.0 * waiting / epoch).abs() < 0.006, "{line}");
}

/// Asserts that both values agree in the five printed digits.
fn assert_close(computed: f64, printed: f64, action: &str) {
    let tolerance = 2e-4 * computed.abs().max(printed.abs());
    assert!((computed - printed).abs() <= tolerance, "{action}: {computed} is not {printed}");
}

#[test]
fn the_detailed_layout_tells_more() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).args(["--profiler", "simple", "--detailed"]).succeed();
    let mut expected = vec!["Optimizer.step", "p50", "p95", "First", "Waiting for data: "];
    if cfg!(target_os = "linux") {
        expected.push("Start-up  ");
    }
    for expected in expected {
        let is_there = run.stdout.to_lowercase().contains(&expected.to_lowercase());
        assert!(is_there, "no {expected:?} in:\n{}", run.stdout);
    }
    test_accuracy(&run.stdout);
}

/// Checks that a closed output pipe does not end the run with a panic.
#[test]
fn a_reader_that_leaves_is_no_panic() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).args(["--profiler", "simple"]);
    let (running, stdout) = run.start_with_output();
    drop(stdout);
    let finished = running.finish();
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}
