//! Changes of the learning rate, and rejected rates.

use mlprof_train::{LrInterval, Mode, Optimizers, ReduceLrOnPlateau, TrainerState};

use crate::toy::{Descent, OnHooks, Record, Triple, inputs, trainer};

type Configure = fn(Optimizers<Descent>) -> Optimizers<Descent>;

/// Creates a toy module whose optimizer begins at a rate of 1.
fn triple(configure: Configure) -> Triple {
    Triple { rate: Some(1.0), configure: Some(configure), ..Triple::default() }
}

#[test]
fn the_first_step_has_the_rate_of_a_warm_up() {
    let mut triple = triple(|optimizers| {
        optimizers.lr_scheduler(LrInterval::Step, |done| (done + 1) as f64 / 16.0)
    });
    trainer().max_epochs(1).fit(&mut triple, &inputs(4), None).expect("trained");
    assert_eq!(triple.rates, [1.0 / 16.0, 2.0 / 16.0, 3.0 / 16.0, 4.0 / 16.0]);
}

/// Returns the rates that hooks see, as `hook: rate`.
fn seen_rates(triple: &mut Triple) -> Vec<String> {
    let seen: Record<String> = Record::default();
    let record = seen.clone();
    let callback = OnHooks(move |hook: &'static str, trainer: &mut TrainerState| {
        let hooks = ["on_train_start", "on_train_batch_end", "on_validation_end"];
        if hooks.contains(&hook) || hook == "on_train_epoch_end" {
            let rate = trainer.learning_rate().expect("a rate");
            record.lock().expect("record").push(format!("{hook}: {rate}"));
        }
    });
    let mut trainer = trainer().max_epochs(2).num_sanity_val_steps(0).callback(callback);
    trainer.fit(triple, &inputs(2), Some(&inputs(1))).expect("trained");
    seen.lock().expect("record").clone()
}

#[test]
fn a_schedule_of_epochs_advances_before_the_last_batch_ends() {
    let mut triple = triple(|optimizers| {
        optimizers.lr_scheduler(LrInterval::Epoch, |epochs| 1.0 / f64::from(1 << epochs))
    });
    let expected = [
        "on_train_start: 1",
        "on_train_batch_end: 1",
        "on_train_batch_end: 0.5",
        "on_validation_end: 0.5",
        "on_train_epoch_end: 0.5",
        "on_train_batch_end: 0.5",
        "on_train_batch_end: 0.25",
        "on_validation_end: 0.25",
        "on_train_epoch_end: 0.25",
    ];
    assert_eq!(seen_rates(&mut triple), expected);
}

#[test]
fn a_plateau_lowers_the_rate_after_the_last_hook_of_its_epoch() {
    let mut triple = triple(|optimizers| {
        // The loss can never improve by this threshold, so every epoch after the first lowers the
        // rate.
        let schedule =
            ReduceLrOnPlateau::new(Mode::Max).patience(0).factor(0.5).absolute_threshold(1e9);
        optimizers.reduce_on_plateau(LrInterval::Epoch, "val_loss", schedule)
    });
    let rates = seen_rates(&mut triple);
    assert_eq!(rates.last().map(String::as_str), Some("on_train_epoch_end: 1"));
    let mut trainer = trainer().max_epochs(4);
    triple.rates.clear();
    trainer.fit(&mut triple, &inputs(1), Some(&inputs(1))).expect("trained");
    assert_eq!(triple.rates, [1.0, 1.0, 0.5, 0.25]);
}

#[test]
fn a_plateau_of_steps_sees_the_validation_that_follows_a_step() {
    let mut triple = triple(|optimizers| {
        let schedule =
            ReduceLrOnPlateau::new(Mode::Max).patience(0).factor(0.5).absolute_threshold(1e9);
        optimizers.reduce_on_plateau(LrInterval::Step, "val_loss", schedule)
    });
    let mut trainer = trainer().max_epochs(1).num_sanity_val_steps(0).val_check_interval(1);
    trainer.fit(&mut triple, &inputs(3), Some(&inputs(1))).expect("trained");
    assert_eq!(triple.rates, [1.0, 1.0, 0.5]);
}

#[test]
fn a_metric_that_was_not_logged_is_named() {
    let mut triple = triple(|optimizers| {
        optimizers.reduce_on_plateau(LrInterval::Epoch, "val_f1", ReduceLrOnPlateau::new(Mode::Max))
    });
    let error = format!("{:?}", trainer().fit(&mut triple, &inputs(2), None).expect_err("refused"));
    let expected = "lr_scheduler_step failed in epoch 0: cannot follow the metric \"val_f1\": it \
                    was not logged; the logged metrics are [\"train_loss\"]";
    assert_eq!(error, expected);
}

#[test]
fn rates_that_move_nothing_forward_are_refused() {
    let refused = |configure: Configure, rate: f64| {
        let mut triple = Triple { rate: Some(rate), ..triple(configure) };
        let error =
            format!("{:?}", trainer().fit(&mut triple, &inputs(2), None).expect_err("refused"));
        assert!(error.contains("use a finite number of at least 0"), "{error}");
        (error, triple.losses.len())
    };
    let nan: Configure = |optimizers| optimizers.lr_scheduler(LrInterval::Step, |_| f64::NAN);
    let (error, steps) = refused(nan, 1.0);
    let beginning = "configure_optimizers failed in epoch 0: cannot use the learning rate NaN of the \
                     schedule";
    assert!(error.starts_with(beginning), "{error}");
    assert_eq!(steps, 0);
    let negative: Configure =
        |optimizers| optimizers.lr_scheduler(LrInterval::Step, |done| 0.5 - done as f64);
    let (error, steps) = refused(negative, 1.0);
    let beginning =
        "lr_scheduler_step failed at batch 0 of epoch 0: cannot use the learning rate -0.5";
    assert!(error.starts_with(beginning), "{error}");
    assert_eq!(steps, 1);
    // An invalid rate of the optimizer itself is also rejected.
    for rate in [f64::NAN, -1.0, f64::INFINITY] {
        let (error, steps) = refused(|optimizers| optimizers, rate);
        assert!(error.contains("of the optimizer"), "{error}");
        assert_eq!(steps, 0);
    }
    let mut still = Triple { rate: Some(0.0), ..Triple::default() };
    trainer().fit(&mut still, &inputs(2), None).expect("a rate of 0 is a rate");
}
