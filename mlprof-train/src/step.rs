//! One training batch: forward, backward, optimizer step.

use super::error::TrainError;
use super::module::TrainModule;
use super::optimizer::{LrInterval, TrainOptimizer};
use super::run::{Run, configured, failed_in};
use super::settings::Settings;
use super::skip::SkipBatch;
use mlprof_core::{ProfilerExt, progress};

/// Position of a batch among those whose gradients are accumulated.
#[derive(Clone, Copy)]
struct Accumulation {
    is_first: bool,
    /// `true` if the optimizer steps after this batch.
    is_last: bool,
}

/// Result of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchEnd {
    /// The optimizer has stepped.
    Stepped,
    /// The gradients are kept, and those of later batches will be added to them.
    Accumulated,
    /// A hook skipped the batch and the rest of the epoch.
    EpochSkipped,
}

impl<M: TrainModule> Run<'_, M> {
    /// Runs the batch that is on the device, with its hooks.
    pub(super) fn training_batch(
        &mut self,
        index: usize,
        is_last_of_epoch: bool,
    ) -> Result<BatchEnd, TrainError> {
        let every = self.settings.accumulate_grad_batches;
        let accumulation = Accumulation {
            is_first: index.is_multiple_of(every),
            is_last: (index + 1).is_multiple_of(every) || is_last_of_epoch,
        };
        self.on_train_batch_start()?;
        if std::mem::take(&mut self.state.skips_epoch) {
            self.batch = None;
            return Ok(BatchEnd::EpochSkipped);
        }
        {
            let profiler = self.profiler.clone();
            let _batch = profiler.profile(self.actions.run_training_batch);
            self.optimize(accumulation)?;
            self.read_loss(is_last_of_epoch)?;
        }
        if accumulation.is_last {
            self.lr_scheduler_step(LrInterval::Step)?;
        }
        if is_last_of_epoch {
            self.lr_scheduler_step(LrInterval::Epoch)?;
        }
        self.go_on()?;
        if accumulation.is_last {
            // Checkpoints do not contain gradients. A resumed training computes the accumulated
            // ones again.
            self.state.resume_point.batch = index + 1;
            self.state.resume_point.is_validated = false;
        }
        self.on_train_batch_end()?;
        self.loss = None;
        Ok(if accumulation.is_last { BatchEnd::Stepped } else { BatchEnd::Accumulated })
    }

    /// Returns an error if the profiler has seen a reason to stop.
    fn go_on(&self) -> Result<(), TrainError> {
        match self.profiler.reason_to_stop() {
            Some(reason) => Err(TrainError::Stopped { reason, position: self.state.position() }),
            None => Ok(()),
        }
    }

    fn optimize(&mut self, accumulation: Accumulation) -> Result<(), TrainError> {
        if !accumulation.is_last {
            self.forward_backward(accumulation)?;
            self.repeat_batch();
            return Ok(());
        }
        let profiler = self.profiler.clone();
        let _step = profiler.profile(self.actions.optimizer_step);
        self.forward_backward(accumulation)?;
        let result = configured(&mut self.optimizers).unscale_gradients();
        failed_in("unscaling gradients", &self.state, result)?;
        self.repeat_batch();
        self.on_before_optimizer_step()?;
        {
            let _clipping = profiler.profile(self.actions.configure_gradient_clipping);
            let Settings { gradient_clip_val, gradient_clip_algorithm, .. } = *self.settings;
            let result = self.module.configure_gradient_clipping(
                configured(&mut self.optimizers),
                gradient_clip_val,
                gradient_clip_algorithm,
                &mut self.state,
            );
            failed_in("configure_gradient_clipping", &self.state, result)?;
        }
        self.go_on()?;
        if self.has_gradients {
            let _update = profiler.profile(self.actions.optimizer_update);
            let result = configured(&mut self.optimizers).step();
            failed_in("optimizer step", &self.state, result)?;
        }
        self.state.global_step += 1;
        Ok(())
    }

    /// Runs forward and backward for the batch. Leaves the loss in `self.loss`, or `None` if the
    /// module skips the batch.
    fn forward_backward(&mut self, accumulation: Accumulation) -> Result<(), TrainError> {
        let profiler = self.profiler.clone();
        {
            let _forward = profiler.profile(self.actions.training_step);
            let Some(batch) = &self.batch else { return Ok(()) };
            self.loss = match self.module.training_step(batch, &mut self.state) {
                Err(error) if error.is::<SkipBatch>() => None,
                result => Some(failed_in("training_step", &self.state, result)?),
            };
        }
        if accumulation.is_first {
            self.on_before_zero_grad()?;
            let _zero = profiler.profile(self.actions.optimizer_zero_grad);
            let optimizer = configured(&mut self.optimizers);
            let result = self.module.optimizer_zero_grad(optimizer, &mut self.state);
            failed_in("optimizer_zero_grad", &self.state, result)?;
            self.has_gradients = false;
        }
        if self.loss.is_none() {
            return Ok(());
        }
        let _backward = profiler.profile(self.actions.backward);
        self.on_before_backward()?;
        // The scale yields the mean over the accumulated batches, as if they were one batch.
        let scale = 1.0 / self.settings.accumulate_grad_batches as f64;
        if let Some(loss) = &self.loss {
            let result = configured(&mut self.optimizers).backward(loss, scale);
            failed_in("backward", &self.state, result)?;
            self.has_gradients = true;
        }
        self.on_after_backward()
    }

    /// Reads the loss if it is due. Returns an error if the loss is NaN or infinite and the
    /// settings do not allow that.
    fn read_loss(&mut self, is_last_of_epoch: bool) -> Result<(), TrainError> {
        let Some(loss) = &self.loss else { return Ok(()) };
        let optimizer = configured(&mut self.optimizers);
        let every = self.settings.log_every_n_steps;
        let is_due = is_last_of_epoch
            || self.state.batch_index.is_some_and(|index| (index + 1).is_multiple_of(every));
        if !is_due && optimizer.reading_waits(loss) {
            return Ok(());
        }
        let _scope = self.profiler.profile(self.actions.read_loss);
        let loss = failed_in("reading the loss", &self.state, optimizer.loss_value(loss))?;
        self.state.loss = Some(loss);
        progress::loss_is(loss);
        if self.settings.stop_on_invalid_loss && !loss.is_finite() {
            return Err(TrainError::InvalidLoss { loss, position: self.state.position() });
        }
        Ok(())
    }
}
