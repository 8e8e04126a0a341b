//! Passes without learning: validation, sanity check, test and prediction.

use super::Portion;
use super::actions::loader_name;
use super::error::{Result, TrainError};
use super::loader::DataLoader;
use super::module::TrainModule;
use super::optimizer::TrainOptimizer;
use super::outcome::{EvaluationOutcome, StopReason};
use super::run::{Run, failed_in};
use super::state::TrainerState;
use mlprof_core::output::say;
use mlprof_core::{Evaluation, ProfilerExt, Stage};

/// Calls the hook of the running stage: the test or prediction hook in these stages, and the
/// validation hook otherwise.
macro_rules! hook {
    ($run:ident, $validation:ident, $test:ident, $predict:ident) => {
        match $run.state.stage {
            Stage::Test => $run.$test(),
            Stage::Predict => $run.$predict(),
            Stage::Validate | Stage::SanityCheck | Stage::Fit => $run.$validation(),
        }
    };
}

/// Function that predicts a batch instead of the module's `predict_step`.
pub(super) type PredictStep<'step, M> =
    &'step mut dyn FnMut(&mut M, &<M as TrainModule>::Batch, &mut TrainerState) -> Result<()>;

impl<M: TrainModule> Run<'_, M> {
    /// Runs an evaluation as a separate stage, from its first hook to its last.
    pub(super) fn evaluation(
        &mut self,
        loader: &dyn DataLoader<M::Batch>,
        stage: Stage,
        predict: Option<PredictStep<'_, M>>,
    ) -> Result<EvaluationOutcome, TrainError> {
        self.begin()?;
        let batches = if self.limit(stage).0.is_zero() {
            let setting = self.limit(stage).1;
            say(format_args!("mlprof: {setting} is 0: {stage} is skipped"));
            0
        } else {
            self.evaluate(loader, stage, predict)?
        };
        self.state.batch_index = None;
        self.teardown()?;
        Ok(EvaluationOutcome {
            batches,
            is_interrupted: self.state.stop == Some(StopReason::Interrupted),
            metrics: self.state.metrics(),
        })
    }

    /// Runs one pass over `loader` without gradients and returns the number of batches.
    pub(super) fn evaluate(
        &mut self,
        loader: &dyn DataLoader<M::Batch>,
        stage: Stage,
        predict: Option<PredictStep<'_, M>>,
    ) -> Result<usize, TrainError> {
        M::Optimizer::without_gradients(|| self.pass(loader, stage, predict))
    }

    fn pass(
        &mut self,
        loader: &dyn DataLoader<M::Batch>,
        stage: Stage,
        mut predict: Option<PredictStep<'_, M>>,
    ) -> Result<usize, TrainError> {
        let before = (self.state.stage, self.state.num_batches);
        let is_inside_fit = before.0 == Stage::Fit;
        self.state.stage = stage;
        self.state.metrics_of_passes().begin_pass(stage == Stage::SanityCheck);
        let mut batches = self.open(loader, stage, self.limit(stage))?;
        self.state.num_batches = batches.total();
        hook!(self, on_validation_model_eval, on_test_model_eval, on_predict_model_eval)?;
        hook!(self, on_validation_start, on_test_start, on_predict_start)?;
        hook!(self, on_validation_epoch_start, on_test_epoch_start, on_predict_epoch_start)?;
        let profiler = self.profiler.clone();
        let mut index = 0;
        while let Some((batch, is_last)) = batches.next(&*profiler, &self.state)? {
            self.state.batch_index = Some(index);
            let step: Option<PredictStep<'_, M>> = match &mut predict {
                Some(step) => Some(&mut **step),
                None => None,
            };
            self.evaluation_batch(batch, step)?;
            self.batch = None;
            self.state.batch_index = None;
            index += 1;
            // Inside a fit, only training batches count as steps.
            if !is_inside_fit {
                profiler.step();
            }
            if is_last || self.session.is_interrupted() {
                break;
            }
        }
        drop(batches);
        if index == 0 {
            return Err(TrainError::NoBatches { loader: loader_name(stage) });
        }
        self.end_of_pass()?;
        (self.state.stage, self.state.num_batches) = before;
        Ok(index)
    }

    fn end_of_pass(&mut self) -> Result<(), TrainError> {
        // The final hooks of a pass can read the values, and may add to them.
        self.state.metrics_of_passes().finish_pass();
        if self.session.is_interrupted() {
            self.state.stop.get_or_insert(StopReason::Interrupted);
        }
        hook!(self, on_validation_epoch_end, on_test_epoch_end, on_predict_epoch_end)?;
        hook!(self, on_validation_end, on_test_end, on_predict_end)?;
        match self.state.stage {
            Stage::Test => self.on_test_model_train()?,
            // Lightning does not have this hook either.
            Stage::Predict => {}
            Stage::Validate | Stage::SanityCheck | Stage::Fit => {
                self.on_validation_model_train()?
            }
        }
        self.state.metrics_of_passes().end_pass();
        Ok(())
    }

    fn evaluation_batch(
        &mut self,
        batch: M::Batch,
        predict: Option<PredictStep<'_, M>>,
    ) -> Result<(), TrainError> {
        self.batch = Some(self.batch_to_device(batch)?);
        hook!(self, on_validation_batch_start, on_test_batch_start, on_predict_batch_start)?;
        {
            let _scope = self.profiler.profile(self.actions.loader(self.state.stage).step);
            let _evaluation = Evaluation::begin();
            let Some(batch) = &self.batch else { return Ok(()) };
            let (name, result) = match self.state.stage {
                Stage::Test => ("test_step", self.module.test_step(batch, &mut self.state)),
                Stage::Predict => {
                    let result = match predict {
                        Some(predict) => predict(self.module, batch, &mut self.state),
                        None => self.module.predict_step(batch, &mut self.state),
                    };
                    ("predict_step", result)
                }
                Stage::Validate | Stage::SanityCheck | Stage::Fit => {
                    ("validation_step", self.module.validation_step(batch, &mut self.state))
                }
            };
            failed_in(name, &self.state, result)?;
        }
        hook!(self, on_validation_batch_end, on_test_batch_end, on_predict_batch_end)
    }

    fn limit(&self, stage: Stage) -> (Portion, &'static str) {
        let settings = self.settings;
        match stage {
            Stage::Fit => (settings.limit_train_batches, "limit_train_batches"),
            Stage::Validate => (settings.limit_val_batches, "limit_val_batches"),
            Stage::Test => (settings.limit_test_batches, "limit_test_batches"),
            Stage::Predict => (settings.limit_predict_batches, "limit_predict_batches"),
            Stage::SanityCheck => {
                let Some(steps) = settings.num_sanity_val_steps else {
                    return (settings.limit_val_batches, "limit_val_batches");
                };
                let steps = match settings.limit_val_batches {
                    Portion::Batches(limit) => steps.min(limit),
                    Portion::Share(_) => steps,
                };
                (Portion::Batches(steps), "num_sanity_val_steps")
            }
        }
    }
}
