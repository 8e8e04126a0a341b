//! Checks the number of calls in every row of the Simple report.

use std::sync::LazyLock;

use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::Run;
use tests::table::Table;

use crate::program;

const EPOCHS: u64 = 3;
/// Number of training batches: 1257 digits in batches of 64. There are 180 digits for validation
/// and 360 for testing.
const TRAIN: u64 = 20;
const VALID: u64 = 3;
const TEST: u64 = 6;
const SANITY: u64 = 2;

/// Returns the output of one training, which all tests in this file share.
fn three_epochs() -> &'static str {
    static PRINTED: LazyLock<String> = LazyLock::new(|| {
        let directory = tempdir().expect("a folder");
        let run = Run::of(&program(), directory.path());
        let arguments = ["--profiler", "simple", "--epochs", "3", "--batch-size", "64"];
        let run = run.args(arguments).args(["--checkpoint-dir", "checkpoints"]).succeed();
        test_accuracy(&run.stdout);
        run.stdout
    });
    &PRINTED
}

#[test]
fn the_console_shows_the_update_and_counts_the_hooks_that_take_no_time() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--profiler", "simple", "--epochs", "1", "--batch-size", "64"];
    let run = Run::of(&program(), directory.path()).env("MLPROF_ALL_ROWS", "0");
    let printed = run.args(arguments).succeed().stdout;
    let (fit, _) = printed.split_once("TEST Profiler Report").expect("a report of the test");
    assert!(fit.contains("|  Optimizer.step "), "{fit}");
    assert!(fit.contains(" more rows are each below 0.1 % of the wall time"), "{fit}");
    assert!(!fit.contains(".on_before_zero_grad "), "a hook that does nothing: {fit}");
    assert!(fit.contains("\nRows nest: ") && fit.contains("(self time): "), "{fit}");
}

/// Returns the expected calls of actions with this ending in a fit of [`EPOCHS`], or `None` for
/// rows of the example itself.
fn calls_in_fit(action: &str) -> Option<u64> {
    let name = action.rsplit(['.', ']']).next().unwrap_or(action);
    let batches = match name {
        _ if action.contains("[module]") => return None,
        _ if action.starts_with("[SanityCheck]") => {
            return Some(if is_per_batch(name) { SANITY } else { 1 });
        }
        _ if name.contains("batch_transfer") || name.ends_with("to_device") => TRAIN + VALID,
        _ if action == "Optimizer.step" => TRAIN,
        "train_dataloader_next"
        | "run_training_batch"
        | "training_step"
        | "optimizer_step"
        | "on_before_zero_grad"
        | "optimizer_zero_grad"
        | "backward"
        | "on_before_backward"
        | "on_after_backward"
        | "on_before_optimizer_step"
        | "configure_gradient_clipping"
        | "read_loss"
        | "on_train_batch_start"
        | "on_train_batch_end" => TRAIN,
        "val_next"
        | "validation_step"
        | "on_validation_batch_start"
        | "on_validation_batch_end" => VALID,
        "run_training_epoch"
        | "lr_scheduler_step"
        | "train_dataloader"
        | "on_train_epoch_start"
        | "on_train_epoch_end"
        | "save_checkpoint"
        | "on_save_checkpoint"
        | "val_dataloader"
        | "on_validation_start"
        | "on_validation_end"
        | "on_validation_epoch_start"
        | "on_validation_epoch_end"
        | "on_validation_model_eval"
        | "on_validation_model_zero_grad"
        | "on_validation_model_train" => 1,
        "configure_callbacks"
        | "prepare_data"
        | "setup"
        | "configure_model"
        | "configure_optimizers"
        | "on_fit_start"
        | "on_fit_end"
        | "on_train_start"
        | "on_train_end"
        | "on_sanity_check_start"
        | "on_sanity_check_end"
        | "teardown"
        | "process_startup"
        | "process_startup_before_main" => return Some(1),
        _ => return None,
    };
    Some(batches * EPOCHS)
}

fn is_per_batch(name: &str) -> bool {
    let steps = ["val_next", "validation_step", "batch_to_device", "transfer_batch_to_device"];
    steps.contains(&name) || name.contains("_batch_")
}

#[test]
fn every_action_is_called_as_often_as_three_epochs_must() {
    let stdout = three_epochs();
    let fit = Table::find("FIT", stdout);
    let mut checked = 0;
    for row in &fit.rows {
        if let Some(expected) = calls_in_fit(&row.action) {
            assert_eq!(row.calls, expected, "{}", row.action);
            checked += 1;
        } else {
            assert!(row.action.contains("[module]"), "what is {}?", row.action);
        }
    }
    // These are the hooks of the module and of the progress bar, the rows of the loop, and those of
    // the sanity check.
    assert!(checked >= 88, "{checked} of {:#?}", fit.rows);
    let epochs = fit.row("run_training_epoch");
    assert_eq!(epochs.calls, EPOCHS);
    assert!(fit.row("run_training_batch").total <= epochs.total);
    assert_eq!(fit.total.calls, fit.rows.iter().map(|row| row.calls).sum::<u64>());

    let test = Table::find("TEST", stdout);
    assert_eq!(test.row("[_EvaluationLoop].test_next").calls, TEST);
    assert_eq!(test.row("[Strategy]SingleDeviceStrategy.test_step").calls, TEST);
    let leftover = test.rows.iter().find(|row| row.action.contains("training"));
    assert!(leftover.is_none(), "rows of the fit in the test's report: {leftover:?}");
}

#[test]
fn layers_are_rows_under_their_paths() {
    let stdout = three_epochs();
    let fit = Table::find("FIT", stdout);
    let layers: Vec<_> = fit.rows.iter().filter(|row| row.action.starts_with("[module]")).collect();
    assert!(layers.len() >= 3, "{:#?}", fit.rows);
    for layer in layers {
        assert!(layer.action.contains(": "), "[module]{{type}}: {{path}}, not {}", layer.action);
        assert_eq!(layer.calls, EPOCHS * (TRAIN + VALID), "{}", layer.action);
    }
}

#[test]
fn the_time_before_main_is_told_apart() {
    let stdout = three_epochs();
    let fit = Table::find("FIT", stdout);
    let (whole, before) = (fit.row("process_startup"), fit.row("process_startup_before_main"));
    assert!(whole.total > 0.0 && before.total <= whole.total, "{whole:?} {before:?}");
    assert!(whole.total < 60.0, "{whole:?}");
    let test = Table::find("TEST", stdout);
    assert!(!test.rows.iter().any(|row| row.action == "process_startup"), "once per process");
}
