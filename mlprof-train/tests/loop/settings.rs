//! Lightning's settings and their effect on a run.

use mlprof_core::Stage;
use mlprof_train::{DataLoader, EpochContext, GradientClipAlgorithm, Trainer};

use crate::toy::{Record, Triple, inputs, trainer};

/// Returns the stage of each validation in a fit of 7 batches per epoch, and the number of training
/// batches before it.
fn validations(trainer: Trainer<Triple>) -> Vec<(Stage, usize)> {
    let mut trainer = trainer;
    let mut triple = Triple::default();
    trainer.fit(&mut triple, &inputs(7), Some(&inputs(4))).expect("trained");
    triple.validated
}

#[test]
fn validations_come_in_every_nth_epoch() {
    let only = |batches: &[usize]| -> Vec<_> {
        batches.iter().map(|batches| (Stage::Validate, *batches)).collect()
    };
    let trainer = || trainer().max_epochs(4).num_sanity_val_steps(0);
    assert_eq!(validations(trainer().check_val_every_n_epoch(2)), only(&[14, 28]));
    assert_eq!(validations(trainer().check_val_every_n_epoch(3)), only(&[21]));
    let within = trainer().check_val_every_n_epoch(2).val_check_interval(3);
    assert_eq!(validations(within), only(&[10, 13, 24, 27]));
    // With `None`, the interval counts the batches of all epochs together.
    let over_all = trainer().check_val_every_n_epoch(None).val_check_interval(10);
    assert_eq!(validations(over_all), only(&[10, 20]));
}

#[test]
fn a_sanity_check_of_minus_one_sees_all_batches() {
    let count = |steps: isize, limit: usize| {
        let record: Record<usize> = Record::default();
        let seen = record.clone();
        let validation = move |_: &EpochContext| {
            let record = record.clone();
            (0..5).map(move |index| {
                record.lock().expect("record").push(index);
                Ok(0.1)
            })
        };
        let mut trainer = trainer().max_epochs(0).num_sanity_val_steps(steps);
        trainer = trainer.limit_val_batches(limit);
        trainer.fit(&mut Triple::default(), &inputs(1), Some(&validation)).expect("trained");
        seen.lock().expect("record").len()
    };
    assert_eq!((count(2, 9), count(-1, 9), count(-1, 3), count(0, 9)), (2, 5, 3, 0));
}

#[test]
fn a_trial_run_runs_one_batch_of_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    let trial = || trainer().fast_dev_run(1).max_epochs(9).val_check_interval(100);
    let mut triple = Triple::default();
    let mut trainer = trial().checkpoint_dir(folder.path().join("checkpoints"));
    let outcome = trainer.fit(&mut triple, &inputs(7), Some(&inputs(4))).expect("trained");
    assert_eq!((outcome.steps, triple.losses.len()), (1, 1));
    assert_eq!(triple.validated, [(Stage::Validate, 1)]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    assert_eq!(trial().test(&mut triple, &inputs(4)).expect("tested").batches, 1);
    assert_eq!(trial().predict(&mut triple, &inputs(4)).expect("predicted").batches, 1);
    assert_eq!(trial().validate(&mut triple, &inputs(4)).expect("validated").batches, 1);
}

#[test]
fn overfitting_sees_the_same_batches_in_every_epoch() {
    let record: Record<usize> = Record::default();
    let seen = record.clone();
    // This loader yields other batches in each epoch.
    let shuffled = move |context: &EpochContext| {
        let (record, epoch) = (record.clone(), context.epoch);
        (0..10).map(move |index| {
            record.lock().expect("record").push(10 * epoch + index);
            Ok(0.1)
        })
    };
    let loader: &dyn DataLoader<f64> = &shuffled;
    let mut triple = Triple::default();
    let mut trainer = trainer().max_epochs(2).overfit_batches(3).num_sanity_val_steps(0);
    trainer.fit(&mut triple, loader, Some(&inputs(5))).expect("trained");
    assert_eq!(*seen.lock().expect("record"), [0, 1, 2, 0, 1, 2]);
    assert_eq!(triple.losses.len(), 6);
}

#[test]
fn gradients_are_clipped_as_the_algorithm_says() {
    let weight = |algorithm| {
        let mut triple = Triple { rate: Some(1.0), ..Triple::default() };
        let mut trainer = trainer().max_epochs(1).gradient_clip_val(0.25);
        trainer = trainer.gradient_clip_algorithm(algorithm);
        trainer.fit(&mut triple, &vec![1.0; 4], None).expect("trained");
        triple.weight.get()
    };
    assert_eq!(weight(GradientClipAlgorithm::Norm), 1.0);
    // The toy clips by value to half of the maximum.
    assert_eq!(weight(GradientClipAlgorithm::Value), 0.5);
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let refused = |trainer: Trainer<Triple>, text: &str| {
        let mut trainer = trainer;
        let error = trainer.fit(&mut Triple::default(), &inputs(3), None).expect_err("refused");
        assert!(format!("{error:?}").contains(text), "{error}");
    };
    refused(trainer().fast_dev_run(0), "fast_dev_run(0)");
    refused(trainer().overfit_batches(1.5), "overfit_batches(1.5)");
    refused(trainer().check_val_every_n_epoch(0), "check_val_every_n_epoch(0)");
    refused(trainer().check_val_every_n_epoch(None), "check_val_every_n_epoch(None)");
}
