//! A whole training with mlprof's trainer: fit, test and reports.

use std::error::Error;
use std::sync::Arc;

use mlprof_core::Profiler;
use mlprof_train::{
    DataLoader, EarlyStopping, EvaluationOutcome, Mode, ModelCheckpoint, StopReason, TrainModule,
    Trainer,
};

use crate::options::{Options, TrainerOptions};
use crate::program::{LossCurve, Measured, refuse_early_end};

/// The metric that selects checkpoints and ends the training early.
const WATCHED: &str = "val_loss";

/// The loaders of a training.
pub struct Loaders<'data, Batch> {
    /// Training data.
    pub train: &'data dyn DataLoader<Batch>,
    /// Validation data.
    pub valid: &'data dyn DataLoader<Batch>,
    /// Test data.
    pub test: &'data dyn DataLoader<Batch>,
}

impl<Batch> std::fmt::Debug for Loaders<'_, Batch> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Loaders").finish_non_exhaustive()
    }
}

/// Trains and tests `module` according to the command line, and writes the requested reports even
/// if training or test ends early. Returns the test accuracy, from 0 to 1.
///
/// # Errors
///
/// Returns the error that ended the fit or the test.
pub fn train_and_test<M: TrainModule>(
    module: &mut M,
    loaders: &Loaders<'_, M::Batch>,
    options: &Options,
    trainer_options: &TrainerOptions,
    profiler: &Arc<dyn Profiler>,
) -> Result<f64, Box<dyn Error>> {
    let mut trainer = Trainer::new()
        .profiler(profiler.clone())
        .max_epochs(options.epochs)
        .seed(options.seed)
        .live(options.profiling.live);
    if let Some(directory) = &trainer_options.checkpoint_dir {
        trainer = trainer.checkpoint_dir(directory);
    }
    if let Some(file) = &trainer_options.loss_curve {
        trainer = trainer.callback(LossCurve::create(file)?);
    }
    if let Some(checkpoints) = trainer_options.save_top_k {
        let saving = ModelCheckpoint::new().monitor(WATCHED, Mode::Min).save_last(true);
        trainer = trainer.callback(saving.save_top_k(checkpoints));
    }
    if let Some(epochs) = trainer_options.patience {
        trainer = trainer.callback(EarlyStopping::new(WATCHED, Mode::Min).patience(epochs));
    }
    let mut measured = Measured::new(profiler);
    let trained = measured.stage(|| {
        let (train, valid) = (loaders.train, Some(loaders.valid));
        let outcome = match &trainer_options.resume {
            Some(checkpoint) => trainer.resume(module, checkpoint, train, valid)?,
            None => trainer.fit(module, train, valid)?,
        };
        match &outcome.stopped {
            StopReason::Requested(reason) if trainer_options.patience.is_some() => {
                mlprof_core::output::say(format_args!("stopped early: {reason}"));
                Ok(())
            }
            _ => refuse_early_end(&outcome),
        }
    });
    let tested = trained.and_then(|()| measured.stage(|| Ok(trainer.test(module, loaders.test)?)));
    // Reports are also written after an error, so that the measurements so far are not lost.
    options.profiling.write_reports(measured.reports())?;
    test_accuracy(&tested?)
}

/// Returns the accuracy that a test logged as `test_accuracy`, from 0 to 1.
///
/// # Errors
///
/// Returns an error if the test ended early, because the accuracy then covers only a part of the
/// data.
pub fn test_accuracy(outcome: &EvaluationOutcome) -> Result<f64, Box<dyn Error>> {
    match outcome.metrics.get("test_accuracy") {
        Some(accuracy) if !outcome.is_interrupted => Ok(*accuracy),
        _ => Err("the test ended early".into()),
    }
}
