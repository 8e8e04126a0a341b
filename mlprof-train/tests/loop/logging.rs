//! Values that hooks log, and where they can be read.

use std::collections::BTreeMap;

use mlprof_core::{ProfilerExt, Stage};
use mlprof_train::{LogOptions, Reduce, TrainerState};

use crate::toy::{OnHooks, Record, Triple, inputs, trainer};

#[test]
fn values_of_the_last_hooks_of_a_pass_are_in_the_outcome() {
    for hook in ["on_test_epoch_end", "on_test_end"] {
        let log = move |name: &str, trainer: &mut TrainerState| {
            if name == hook {
                trainer.log("f1", 0.9);
                assert_eq!(trainer.metric("f1"), Some(0.9), "{hook}");
            }
        };
        let outcome = trainer().callback(OnHooks(log)).test(&mut Triple::default(), &inputs(3));
        assert_eq!(outcome.expect("tested").metrics.get("f1"), Some(&0.9), "{hook}");
    }
    let hooks = ["on_fit_start", "on_train_start", "on_train_epoch_end", "on_train_end"];
    for hook in hooks.into_iter().chain(["on_train_epoch_start", "on_train_batch_end"]) {
        let log = move |name: &str, trainer: &mut TrainerState| {
            if name == hook {
                trainer.log("f1", trainer.epoch() as f64);
            }
        };
        let mut trainer = trainer().callback(OnHooks(log));
        let outcome = trainer.fit(&mut Triple::default(), &inputs(4), None).expect("trained");
        let expected =
            if hook.ends_with("t_start") || hook == "on_train_start" { 0.0 } else { 2.0 };
        assert_eq!(outcome.metrics.get("f1"), Some(&expected), "the last epoch's, of {hook}");
    }
}

#[test]
fn each_validation_has_a_value_of_its_own() {
    for hook in ["on_validation_start", "on_validation_batch_end", "on_validation_epoch_end"] {
        let seen = Record::default();
        let record: Record<Option<f64>> = seen.clone();
        let mut validations = 0.0;
        let callback = OnHooks(move |name: &str, trainer: &mut TrainerState| {
            if trainer.stage() != Stage::Validate {
                return;
            }
            if name == "on_validation_start" {
                validations += 1.0;
            }
            if name == hook {
                trainer.log("val_f1", validations);
            }
            if name == "on_validation_end" {
                record.lock().expect("record").push(trainer.metric("val_f1"));
            }
        });
        let mut trainer = trainer().max_epochs(2).val_check_interval(0.5).callback(callback);
        let outcome = trainer.fit(&mut Triple::default(), &inputs(4), Some(&inputs(2)));
        let expected = [1.0, 2.0, 3.0, 4.0].map(Some);
        assert_eq!(*seen.lock().expect("record"), expected, "{hook}");
        assert_eq!(outcome.expect("trained").metrics.get("val_f1"), Some(&4.0), "{hook}");
    }
}

#[test]
fn nothing_of_a_sanity_check_is_kept() {
    let log = |name: &str, trainer: &mut TrainerState| {
        if trainer.stage() == Stage::SanityCheck {
            trainer.log("sanity", 1.0);
            trainer.log_with("sanity", 1.0, &LogOptions::new().on_step(true));
            assert_eq!(trainer.metric("sanity"), None, "{name}");
        }
    };
    let mut trainer = trainer().max_epochs(1).callback(OnHooks(log));
    let outcome = trainer.fit(&mut Triple::default(), &inputs(2), Some(&inputs(2)));
    let metrics = outcome.expect("trained").metrics;
    assert_eq!(metrics.keys().collect::<Vec<_>>(), ["train_loss", "val_loss"]);
}

#[test]
fn a_scope_may_be_open_and_a_value_of_a_step_is_read_at_once() {
    let log = |name: &str, trainer: &mut TrainerState| {
        let Some(batch) = trainer.batch_index().filter(|_| name == "on_train_batch_end") else {
            return;
        };
        let _scope = trainer.profiler().profile("log");
        let value = batch as f64;
        trainer.log_with("peak", value, &LogOptions::new().reduce(Reduce::Max).on_step(true));
        assert_eq!(
            (trainer.metric("peak"), trainer.metric("peak_step")),
            (Some(value), Some(value))
        );
        trainer.stop("a scope may be open when the end is asked for");
    };
    let mut trainer = trainer().min_epochs(1).callback(OnHooks(log));
    let outcome = trainer.fit(&mut Triple::default(), &inputs(5), None).expect("trained");
    let of = |metrics: &BTreeMap<String, f64>, name: &str| metrics.get(name).copied();
    let names = ["peak", "peak_epoch", "peak_step"];
    assert_eq!(names.map(|name| of(&outcome.metrics, name)), [Some(4.0); 3]);
}
