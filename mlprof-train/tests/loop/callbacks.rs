//! Callbacks that are part of this crate.

use std::path::Path;

use mlprof_train::{
    Callback, EarlyStopping, HookContext, LearningRateMonitor, LrInterval, Mode, ModelCheckpoint,
    Result, StopReason, TrainModule, Trainer, TrainerState,
};

use crate::saved::{Saved, names, shuffled};

fn trainer(epochs: usize) -> Trainer<Saved> {
    Trainer::new().max_epochs(epochs).progress_bar(false).seed(7)
}

/// Logs a value at the end of each training epoch or validation, as a module could.
struct Scores(Vec<f64>);

impl<M: TrainModule> Callback<M> for Scores {
    fn on_train_epoch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        trainer.log("score", self.0[trainer.epoch()]);
        Ok(())
    }
}

fn fit(trainer: &mut Trainer<Saved>, from: Option<&Path>) -> mlprof_train::FitOutcome {
    let mut module = Saved::default();
    let validation = vec![1.0];
    let outcome = match from {
        Some(path) => trainer.resume(&mut module, path, &shuffled, Some(&validation)),
        None => trainer.fit(&mut module, &shuffled, Some(&validation)),
    };
    outcome.expect("trained")
}

#[test]
fn early_stopping_ends_a_fit_and_its_count_is_in_checkpoints() {
    let scores = || Scores(vec![1.0, 2.0, 1.5, 1.5, 9.0, 9.0]);
    let stopping = || EarlyStopping::new("score", Mode::Max).patience(3);
    let folder = tempfile::tempdir().expect("a folder");
    let trainer = || trainer(6).callback(scores()).callback(stopping().patience(2));
    let outcome = fit(&mut trainer().checkpoint_dir(folder.path()), None);
    assert_eq!(outcome.epochs, 4);
    let StopReason::Requested(reason) = &outcome.stopped else { panic!("{outcome:?}") };
    assert_eq!(reason, "score did not improve on 2 in 2 checks");
    // The fit resumes after the first of the two checks without a better score.
    let path = folder.path().join("epoch=2-step=30.safetensors");
    assert_eq!(fit(&mut trainer(), Some(&path)), outcome);

    let mut module = Saved::default();
    let missing = EarlyStopping::new("acuracy", Mode::Max);
    let error =
        self::trainer(1).callback(scores()).callback(missing).fit(&mut module, &shuffled, None);
    let error = format!("{:?}", error.expect_err("no such metric"));
    assert!(error.contains("cannot find the metric \"acuracy\""), "{error}");
    assert!(error.contains("one of the logged metrics: score"), "{error}");
    let mut lenient = self::trainer(1).callback(EarlyStopping::new("x", Mode::Min).strict(false));
    assert_eq!(fit(&mut lenient, None).epochs, 1);
}

#[test]
fn early_stopping_sees_each_of_several_validations() {
    let stopping = EarlyStopping::new("val_loss", Mode::Min).patience(1).stopping_threshold(0.0);
    // At first, the weight approaches 3. The first overshoot, inside an epoch, ends the fit.
    let mut trainer = trainer(20).val_check_interval(3).callback(stopping);
    let outcome = fit(&mut trainer, None);
    assert!(matches!(outcome.stopped, StopReason::Requested(_)), "{outcome:?}");
    assert_ne!(outcome.steps % 10, 0, "inside an epoch: {outcome:?}");
}

/// Returns the files that remain after a fit with these scores, one per epoch.
fn kept(scores: &[f64], saving: ModelCheckpoint) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut trainer = trainer(scores.len()).checkpoint_dir(folder.path());
    trainer = trainer.callback(saving).callback(Scores(scores.to_vec()));
    fit(&mut trainer, None);
    let names = names(folder.path()).into_iter();
    names.map(|name| name.trim_end_matches(".safetensors").to_owned()).collect()
}

#[test]
fn the_best_checkpoints_are_kept() {
    let scores = [3.0, 1.0, 2.0, f64::NAN, 0.5];
    let saving = || ModelCheckpoint::new().filename("{epoch}");
    let best = |mode, k| kept(&scores, saving().monitor("score", mode).save_top_k(k));
    assert_eq!(best(Mode::Min, 1), ["epoch=4"]);
    assert_eq!(best(Mode::Min, 2), ["epoch=1", "epoch=4"]);
    assert_eq!(best(Mode::Max, 1), ["epoch=0"]);
    assert_eq!(best(Mode::Max, 3), ["epoch=0", "epoch=1", "epoch=2"]);
    assert_eq!(best(Mode::Min, 5).len(), 5);
    assert_eq!(kept(&scores, saving()), ["epoch=4"], "the latest");
    assert_eq!(kept(&scores, saving().save_top_k(0).save_last(true)), ["last"]);
    assert_eq!(kept(&scores, saving().save_last(true)), ["epoch=4", "last"]);
    assert_eq!(kept(&scores, saving().save_top_k(None).every_n_epochs(2)), ["epoch=1", "epoch=3"]);
    let named = saving().monitor("score", Mode::Min).filename("{epoch}-{score:.2f}");
    assert_eq!(kept(&scores, named), ["epoch=4-score=0.50"]);
    let steps = saving().filename("{step}").save_top_k(None).every_n_train_steps(20);
    assert_eq!(kept(&scores, steps), ["step=20", "step=40"]);
}

#[test]
fn paths_tell_which_checkpoint_is_the_best() {
    let folder = tempfile::tempdir().expect("a folder");
    let saving = ModelCheckpoint::new().dirpath(folder.path()).filename("{epoch}");
    let saving = saving.monitor("score", Mode::Max).save_top_k(2).save_last(true);
    fit(&mut trainer(4).callback(Scores(vec![1., 5., 3., 2.])).callback(saving.clone()), None);
    let path = |name: &str| folder.path().join(name);
    assert_eq!(saving.best_model_path(), Some(path("epoch=1.safetensors")));
    assert_eq!(saving.last_model_path(), Some(path("last.safetensors")));
    assert_eq!(saving.best_k_models()[1], (path("epoch=2.safetensors"), 3.0));
}

#[test]
fn kept_checkpoints_continue_after_resuming() {
    let folder = tempfile::tempdir().expect("a folder");
    let scores = || Scores(vec![2., 5., 3., 4., 6., 1.]);
    let run = |epochs, from: Option<&Path>, folder: &Path| {
        let saving = ModelCheckpoint::new().filename("{epoch}").monitor("score", Mode::Max);
        let saving = saving.save_top_k(2).save_last(true);
        let trainer = trainer(epochs).checkpoint_dir(folder).callback(scores());
        fit(&mut trainer.callback(saving.clone()), from);
        saving.best_k_models()
    };
    run(3, None, folder.path());
    let last = folder.path().join("last.safetensors");
    assert_eq!(run(6, Some(&last), folder.path()).len(), 2);
    let files = |names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{name}.safetensors")).collect()
    };
    assert_eq!(names(folder.path()), files(&["epoch=1", "epoch=4", "last"]));

    // A new run without a checkpoint must not remove these files. Neither must a run into another
    // folder.
    let before = std::fs::read(&last).expect("there");
    run(2, None, folder.path());
    let expected = ["epoch=0", "epoch=1-v1", "epoch=1", "epoch=4", "last-v1", "last"];
    assert_eq!(names(folder.path()), files(&expected));
    let other = tempfile::tempdir().expect("a folder");
    run(6, Some(&folder.path().join("epoch=1.safetensors")), other.path());
    assert_eq!(names(folder.path()), files(&expected));
    assert_eq!(std::fs::read(&last).expect("there"), before);
}

/// Saves after each validation inside an epoch, and resumes from each of these checkpoints.
#[test]
fn a_checkpoint_of_a_validation_goes_on_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let trainer = |saving: ModelCheckpoint| trainer(2).val_check_interval(4).callback(saving);
    let saving = ModelCheckpoint::new().dirpath(folder.path()).filename("{step}").save_top_k(None);
    let whole = fit(&mut trainer(saving), None);
    let files = names(folder.path());
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let other = tempfile::tempdir().expect("a folder");
        let saving =
            ModelCheckpoint::new().dirpath(other.path()).filename("{step}").save_top_k(None);
        let outcome = fit(&mut trainer(saving), Some(&folder.path().join(&file)));
        assert_eq!(outcome, whole, "{file}");
    }
}

#[test]
fn a_checkpoint_without_a_folder_is_refused_before_the_first_batch() {
    let mut module = Saved::default();
    let fit = trainer(1).callback(ModelCheckpoint::new()).fit(&mut module, &shuffled, None);
    let error = format!("{:?}", fit.expect_err("no folder"));
    assert!(error.contains("there is no directory"), "{error}");
    assert!(module.inputs.is_empty());
}

#[test]
fn learning_rates_are_a_metric_and_a_list_that_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |epochs, from: Option<&Path>| {
        let monitor = LearningRateMonitor::new(LrInterval::Step);
        let mut trainer = trainer(epochs).callback(monitor.clone()).checkpoint_dir(folder.path());
        let mut module = Saved { schedule: Some(LrInterval::Epoch), ..Saved::default() };
        let outcome = match from {
            Some(path) => trainer.resume(&mut module, path, &shuffled, None),
            None => trainer.fit(&mut module, &shuffled, None),
        };
        (outcome.expect("trained").metrics["lr"], monitor.rates())
    };
    let (last, all) = run(2, None);
    assert_eq!((last, all[0], all[10], all.len()), (0.025, (0, 0.05), (10, 0.025), 20));
    let path = folder.path().join("epoch=0-step=10.safetensors");
    assert_eq!(run(2, Some(&path)), (last, all));
    let monitor = LearningRateMonitor::new(LrInterval::Epoch);
    fit(&mut trainer(3).callback(monitor.clone()), None);
    assert_eq!(monitor.rates(), [(0, 0.05), (10, 0.05), (20, 0.05)]);
}
