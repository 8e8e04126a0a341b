//! The repetition of a training batch for a profiler that looks for the origin of a wrong number.

use super::error::Result;
use super::module::TrainModule;
use super::optimizer::TrainOptimizer;
use super::run::{Run, configured};
use mlprof_core::{Observation, ProfilerExt, TrainingControl};

impl<M: TrainModule> Run<'_, M> {
    /// Runs the batch again if the profiler requests it. Backward runs only if the training ends
    /// then, so that the gradients of the first run stay where training goes on. Logged values do
    /// not change, and only the profiler receives an error.
    pub(super) fn repeat_batch(&mut self) {
        let profiler = self.profiler.clone();
        let control = TrainingControl::with_rerun();
        profiler.observe(&Observation::Control(&control));
        if !control.wants_rerun() {
            return;
        }
        let metrics = self.state.metrics_of_passes().clone();
        let result = {
            let _scope = profiler.profile(self.actions.rerun_training_batch);
            self.run_repeated()
        };
        *self.state.metrics_of_passes() = metrics;
        let failure = result.err().map(|error| error.to_string());
        profiler.observe(&Observation::RerunEnd(failure.as_deref()));
    }

    fn run_repeated(&mut self) -> Result<()> {
        let Some(batch) = &self.batch else { return Ok(()) };
        let loss = self.module.training_step(batch, &mut self.state)?;
        if self.profiler.reason_to_stop().is_some() {
            let optimizer = configured(&mut self.optimizers);
            optimizer.zero_grad()?;
            let scale = 1.0 / self.settings.accumulate_grad_batches as f64;
            optimizer.backward(&loss, scale)?;
            optimizer.unscale_gradients()?;
        }
        Ok(())
    }
}
