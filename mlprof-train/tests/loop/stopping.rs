//! End of a fit when a stop is requested.

use std::time::Duration;

use mlprof_core::Stage;
use mlprof_train::{FitOutcome, StopReason, Trainer, TrainerState};

use crate::toy::{OnHooks, Record, Triple, inputs, trainer};

/// Fits with `trainer`, and requests a stop when `hook` is called for the `nth` time. Returns the
/// outcome, the batches, the validations and the called hooks.
fn fit(
    trainer: Trainer<Triple>,
    hook: &'static str,
    nth: usize,
) -> (FitOutcome, usize, usize, Vec<&'static str>) {
    let calls: Record<&'static str> = Record::default();
    let record = calls.clone();
    let callback = OnHooks(move |name: &'static str, trainer: &mut TrainerState| {
        let mut calls = record.lock().expect("record");
        calls.push(name);
        if name == hook && calls.iter().filter(|call| **call == hook).count() == nth {
            trainer.stop("enough");
        }
    });
    let mut trainer = trainer.num_sanity_val_steps(0).callback(callback);
    let mut triple = Triple::default();
    let outcome = trainer.fit(&mut triple, &inputs(7), Some(&inputs(2))).expect("trained");
    let validations = triple.validated.iter().filter(|(stage, _)| *stage == Stage::Validate);
    let validations = validations.count();
    let calls = calls.lock().expect("record").clone();
    (outcome, triple.losses.len(), validations, calls)
}

fn asked() -> StopReason {
    StopReason::Requested("enough".into())
}

#[test]
fn a_validation_follows_the_batch_after_which_it_is_asked() {
    let (outcome, batches, validations, calls) = fit(trainer(), "on_train_batch_end", 3);
    assert_eq!((batches, validations, outcome.steps, outcome.epochs), (3, 1, 3, 0));
    assert_eq!(outcome.stopped, asked());
    let end = ["on_validation_end", "on_train_epoch_end", "on_train_end", "on_fit_end"];
    assert!(calls.ends_with(&end), "{calls:?}");
}

#[test]
fn no_batch_follows_where_none_has_begun() {
    for (hook, epochs_begun) in [("on_train_start", 0), ("on_train_epoch_start", 1)] {
        let (outcome, batches, validations, calls) = fit(trainer(), hook, 1);
        assert_eq!((batches, validations, outcome.steps, outcome.epochs), (0, 0, 0, 0), "{hook}");
        assert_eq!(outcome.stopped, asked());
        let begun = calls.iter().filter(|call| **call == "on_train_epoch_start").count();
        let ended = calls.iter().filter(|call| **call == "on_train_epoch_end").count();
        assert_eq!((begun, ended), (epochs_begun, epochs_begun), "{hook}");
        assert!(calls.ends_with(&["on_train_end", "on_fit_end"]), "{calls:?}");
    }
}

#[test]
fn an_epoch_that_is_over_is_whole() {
    for hook in ["on_validation_end", "on_train_epoch_end"] {
        let (outcome, batches, validations, _) = fit(trainer(), hook, 2);
        assert_eq!((batches, validations, outcome.epochs), (14, 2, 2), "{hook}");
        assert_eq!(outcome.stopped, asked());
    }
}

#[test]
fn the_least_number_of_epochs_and_steps_is_run() {
    let (outcome, batches, validations, _) =
        fit(trainer().max_epochs(9).min_epochs(2), "on_train_batch_end", 3);
    assert_eq!((batches, validations, outcome.epochs), (14, 2, 2));
    assert_eq!(outcome.stopped, asked());
    let (outcome, batches, validations, _) =
        fit(trainer().max_epochs(9).min_steps(10), "on_train_batch_end", 3);
    assert_eq!((batches, validations, outcome.epochs), (10, 2, 1));
    assert_eq!(outcome.stopped, asked());
    // All epochs run, so the requested stop is not the reason for the end.
    let (outcome, batches, ..) = fit(trainer().min_epochs(5), "on_train_batch_end", 3);
    assert_eq!((batches, outcome.stopped), (21, StopReason::MaxEpochs));
}

#[test]
fn a_time_that_is_over_ends_the_fit() {
    let never = "on_test_end";
    let (outcome, batches, validations, _) = fit(trainer().max_time(Duration::ZERO), never, 1);
    assert_eq!((batches, validations, outcome.stopped), (0, 0, StopReason::MaxTime));
    let (outcome, batches, validations, _) =
        fit(trainer().max_time(Duration::ZERO).min_steps(3), never, 1);
    // As in Lightning, a minimum number of steps makes the first epoch run to its end.
    assert_eq!((batches, validations, outcome.stopped), (7, 1, StopReason::MaxTime));
    let (outcome, batches, ..) =
        fit(trainer().max_time(Duration::ZERO).min_steps(3).min_epochs(0), never, 1);
    assert_eq!((batches, outcome.stopped), (3, StopReason::MaxTime));
    let (outcome, batches, ..) = fit(trainer().max_time(Duration::MAX), never, 1);
    assert_eq!((batches, outcome.stopped), (21, StopReason::MaxEpochs));
}
