//! Failures: each gives a clear message and the report, and loses no results.

use std::error::Error as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlprof_core::{
    Action, MultiProfiler, NeverStarted, Observation, Profiler, Report, SimpleProfiler,
};
use mlprof_train::{
    Callback, EpochContext, HookContext, Result, StopReason, TrainError, TrainModule, TrainerState,
};

use crate::toy::{Triple, Trouble, Watched, inputs, trainer};

/// Fits ten batches with a failure at the fifth, and returns the error if the fit returns one.
fn fit(trouble: Trouble, watched: &Watched) -> Result<StopReason, TrainError> {
    let mut triple = Triple { trouble: Some((4, trouble)), ..Triple::default() };
    let mut trainer = trainer().profiler(watched.profiler.clone());
    trainer.fit(&mut triple, &inputs(10), None).map(|outcome| outcome.stopped)
}

/// Checks that the report was written and contains the five batches that had begun.
pub fn has_report(watched: &Watched) {
    let text = watched.delivered("fit");
    // The verdict comes first.
    assert_eq!(text.lines().nth(1), Some("FIT Profiler Report"), "{text}");
    assert_eq!(watched.calls("[Strategy]SingleDeviceStrategy.training_step"), 5);
    assert!(watched.report().open.is_empty());
}

#[test]
fn an_unknown_profiler_is_an_error_of_the_fit_wherever_it_is_chosen() {
    let chains =
        [trainer().profiler("smiple").max_epochs(2), trainer().max_epochs(2).profiler("smiple")];
    for mut trainer in chains {
        let mut triple = Triple::default();
        let error = trainer.fit(&mut triple, &inputs(5), None).expect_err("refused");
        assert_eq!(error.to_string(), "cannot choose the profiler");
        let reason = error.source().expect("a reason").to_string();
        assert!(reason.contains("\"smiple\""), "{reason}");
        assert!(reason.contains("\"simple\", \"advanced\""), "{reason}");
        // Choosing another profiler corrects the error.
        trainer.profiler("none").fit(&mut triple, &inputs(5), None).expect("trained");
    }
}

#[test]
fn an_error_of_a_step_comes_back_after_the_report() {
    let watched = Watched::new();
    let error = fit(Trouble::Error, &watched).expect_err("it failed");
    let expected = "training_step failed at batch 4 of epoch 0: the tensor has the wrong shape";
    assert_eq!(format!("{error:?}"), expected);
    has_report(&watched);
}

#[test]
fn a_loss_that_is_no_number_ends_training() {
    let watched = Watched::new();
    let error = fit(Trouble::NotANumber, &watched).expect_err("it failed");
    let message = format!("{error:?}");
    assert!(message.starts_with("the loss is NaN at batch 4 of epoch 0"), "{message}");
    has_report(&watched);

    let mut triple = Triple { trouble: Some((4, Trouble::NotANumber)), ..Triple::default() };
    let outcome =
        trainer().stop_on_invalid_loss(false).fit(&mut triple, &inputs(10), None).expect("goes on");
    assert_eq!(outcome.steps, 30);
}

/// Requests a stop in the third batch.
#[derive(Default)]
struct Alarm(AtomicU64);

impl Profiler for Alarm {
    fn start(&self, action: Action) {
        let is_forward = action.name().ends_with("training_step");
        self.0.fetch_add(u64::from(is_forward), Ordering::Relaxed);
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn observe(&self, observation: &Observation<'_>) {
        if let Observation::Control(control) = observation
            && self.0.load(Ordering::Relaxed) == 3
        {
            control.stop("the loss is not finite");
        }
    }
}

#[test]
fn a_profiler_that_sees_a_reason_ends_training_before_the_parameters_change() {
    let both = [Arc::new(SimpleProfiler::new()) as Arc<dyn Profiler>, Arc::new(Alarm::default())];
    let profiler = Arc::new(MultiProfiler::new(both));
    let mut triple = Triple::default();
    let mut trainer = trainer().profiler(profiler.clone());
    let error = trainer.fit(&mut triple, &inputs(10), None).expect_err("it is stopped");
    let expected =
        "the profiler stopped the training at batch 2 of epoch 0: the loss is not finite";
    assert_eq!(format!("{error:?}"), expected);
    let Some(Report::Simple(report)) = profiler.report() else { panic!("Simple's") };
    let calls = |name: &str| {
        report.actions.iter().find(|row| row.action.ends_with(name)).map(|row| row.calls)
    };
    assert_eq!(calls("backward"), Some(3));
    assert_eq!(calls("configure_gradient_clipping"), Some(3));
    assert_eq!(calls("on_train_batch_end"), Some(2));
    // The weight is that of a training with two batches.
    let mut short = Triple::default();
    crate::toy::trainer().max_epochs(1).fit(&mut short, &inputs(2), None).expect("trained");
    assert_eq!(triple.weight.get(), short.weight.get());
}

#[test]
fn a_panic_goes_on_after_the_report() {
    let watched = Watched::new();
    let mut triple = Triple { trouble: Some((4, Trouble::Panic)), ..Triple::default() };
    let mut trainer = trainer().profiler(watched.profiler.clone());
    let data = inputs(10);
    let panic = catch_unwind(AssertUnwindSafe(|| trainer.fit(&mut triple, &data, None)))
        .expect_err("it panicked");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"index out of range in training_step"));
    has_report(&watched);

    // The trainer still works after the panic.
    triple.trouble = None;
    assert_eq!(trainer.fit(&mut triple, &inputs(2), None).expect("trained").steps, 6);
    assert!(mlprof_core::active().is_none());
}

#[test]
fn a_request_to_stop_ends_after_the_batch() {
    let watched = Watched::new();
    let stopped = fit(Trouble::Stop, &watched).expect("no error");
    assert_eq!(stopped, StopReason::Requested("enough".into()));
    assert_eq!(watched.calls("[LightningModule]Triple.on_train_batch_end"), 5);
    assert_eq!(watched.calls("[LightningModule]Triple.on_fit_end"), 1);
    has_report(&watched);
}

#[test]
fn a_loader_that_fails_in_the_middle_is_named() {
    let watched = Watched::new();
    let loader = |_: &EpochContext| {
        (0..10).map(|index| if index == 5 { Err("bad sector".into()) } else { Ok(0.1) })
    };
    let mut trainer = trainer().profiler(watched.profiler.clone());
    let error = trainer.fit(&mut Triple::default(), &loader, None).expect_err("it failed");
    let expected = "the training loader failed at batch 5 of epoch 0: bad sector";
    assert_eq!(format!("{error:?}"), expected);
    has_report(&watched);
}

#[test]
fn a_loader_that_gives_less_than_it_promised_is_named() {
    struct Liar;
    impl Iterator for Liar {
        type Item = Result<f64>;
        fn next(&mut self) -> Option<Self::Item> {
            None
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (3, Some(3))
        }
    }
    let loader = |_: &EpochContext| Liar;
    let error = trainer().fit(&mut Triple::default(), &loader, None).expect_err("it failed");
    assert!(
        format!("{error:?}").ends_with("its size hint was 3 batches, but it yielded 0"),
        "{error}"
    );
}

#[test]
fn empty_data_is_an_error_and_a_limit_of_zero_is_a_wish() {
    let watched = Watched::new();
    let mut trainer_ = trainer().profiler(watched.profiler.clone());
    let error = trainer_.fit(&mut Triple::default(), &inputs(0), None).expect_err("it failed");
    assert!(format!("{error:?}").starts_with("the training loader yielded no batch"), "{error}");
    assert!(watched.delivered("fit").contains("on_train_epoch_start"));

    let error =
        trainer().fit(&mut Triple::default(), &inputs(3), Some(&inputs(0))).expect_err("it failed");
    assert!(format!("{error:?}").starts_with("the validation loader yielded no batch"), "{error}");

    let mut trainer = trainer().limit_train_batches(0);
    let outcome = trainer.fit(&mut Triple::default(), &inputs(3), None).expect("skipped");
    assert_eq!((outcome.stopped, outcome.steps), (StopReason::Skipped, 0));
}

#[test]
fn settings_that_make_no_sense_are_refused_before_anything_runs() {
    let refused = |trainer: mlprof_train::Trainer<Triple>| {
        let mut trainer = trainer;
        let mut triple = Triple::default();
        let error = trainer.fit(&mut triple, &inputs(3), Some(&inputs(3))).expect_err("refused");
        assert!(triple.losses.is_empty());
        format!("{error:?}")
    };
    assert!(refused(trainer().accumulate_grad_batches(0)).contains("accumulate_grad_batches(0)"));
    assert!(refused(trainer().gradient_clip_val(-1.0)).contains("gradient_clip_val(-1.0)"));
    assert!(refused(trainer().limit_val_batches(1.5)).contains("limit_val_batches(1.5)"));
    assert!(refused(trainer().log_every_n_steps(0)).contains("log_every_n_steps(0)"));
    assert!(refused(trainer().val_check_interval(4)).contains("validation would never run"));
}

struct Faulty;

impl<M: TrainModule> Callback<M> for Faulty {
    fn on_train_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        Err("no connection to the logger".into())
    }
}

struct Witness(std::sync::Arc<std::sync::Mutex<Option<String>>>);

impl<M: TrainModule> Callback<M> for Witness {
    fn on_exception(
        &mut self,
        error: &TrainError,
        _: &mut HookContext<'_, M>,
        _: &mut TrainerState,
    ) {
        *self.0.lock().expect("witness") = Some(format!("{error:?}"));
    }
}

#[test]
fn an_error_of_a_callback_is_named_and_told_to_all() {
    let told = std::sync::Arc::default();
    let mut trainer = trainer().callback(Faulty).callback(Witness(std::sync::Arc::clone(&told)));
    let error = trainer.fit(&mut Triple::default(), &inputs(3), None).expect_err("it failed");
    let expected = "callback Faulty: on_train_batch_end failed at batch 0 of epoch 0: no \
                    connection to the logger";
    assert_eq!(format!("{error:?}"), expected);
    assert_eq!(told.lock().expect("witness").as_deref(), Some(expected));
}

/// Replaces a folder with a file when the first epoch ends.
struct FolderIsLost(std::path::PathBuf);

impl<M: TrainModule> Callback<M> for FolderIsLost {
    fn on_train_epoch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        std::fs::remove_dir_all(&self.0)?;
        Ok(std::fs::write(&self.0, "")?)
    }
}

#[test]
fn a_full_disk_costs_the_checkpoint_and_not_the_report() {
    let watched = Watched::new();
    let folder = watched.directory.path().join("checkpoints");
    let mut trainer = trainer()
        .profiler(watched.profiler.clone())
        .callback(FolderIsLost(folder.clone()))
        .checkpoint_dir(&folder);
    let error = trainer.fit(&mut Triple::default(), &inputs(5), None).expect_err("it failed");
    let message = format!("{error:?}");
    assert!(message.starts_with("cannot write a checkpoint to "), "{message}");
    assert!(message.contains("epoch=0-step=5.txt"), "{message}");
    has_report(&watched);
}

#[test]
fn a_folder_that_cannot_be_written_to_ends_the_fit_before_its_first_batch() {
    let watched = Watched::new();
    let file = watched.directory.path().join("taken");
    std::fs::write(&file, "").expect("file");
    let mut triple = Triple::default();
    let error = trainer().checkpoint_dir(&file).fit(&mut triple, &inputs(5), None);
    let message = format!("{:?}", error.expect_err("refused"));
    assert!(message.starts_with("cannot write a checkpoint to "), "{message}");
    assert_eq!((triple.losses.len(), triple.validated.len()), (0, 0), "{message}");
}

/// Learns, but has no `save_checkpoint`.
struct Unsaved(Triple);

impl mlprof_train::TrainModule for Unsaved {
    type Batch = f64;
    type Optimizer = crate::toy::Descent;

    fn configure_optimizers(&mut self) -> Result<mlprof_train::Optimizers<crate::toy::Descent>> {
        self.0.configure_optimizers()
    }

    fn training_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<(f64, f64)> {
        self.0.training_step(input, trainer)
    }
}

#[test]
fn a_module_that_cannot_save_is_refused_before_the_first_batch() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut module = Unsaved(Triple::default());
    let error = trainer().checkpoint_dir(folder.path()).fit(&mut module, &inputs(5), None);
    let message = format!("{:?}", error.expect_err("refused"));
    assert!(message.contains("implement TrainModule::save_checkpoint"), "{message}");
    assert_eq!(module.0.losses.len(), 0);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing is left");
}
