//! One training batch: forward, backward, optimizer.

use super::error::TrainError;
use super::module::{LossOf, TrainModule};
use super::optimizer::{LrInterval, Optimizers, TrainOptimizer};
use super::run::{Run, failed_in};
use profiler_core::{ProfilerExt, progress};

/// Where a batch stands among those whose gradients are accumulated.
#[derive(Clone, Copy)]
struct Accumulation {
    is_first: bool,
    /// The optimizer steps after it.
    is_last: bool,
}

impl<M: TrainModule> Run<'_, M> {
    /// Runs a batch that is on the device, with its hooks, and returns whether the optimizer has
    /// stepped.
    pub(super) fn training_batch(
        &mut self,
        optimizers: &mut Optimizers<M::Optimizer>,
        batch: &M::Batch,
        index: usize,
        is_last_of_epoch: bool,
    ) -> Result<bool, TrainError> {
        let every = self.settings.accumulate_grad_batches;
        let accumulation = Accumulation {
            is_first: index.is_multiple_of(every),
            is_last: (index + 1).is_multiple_of(every) || is_last_of_epoch,
        };
        self.on_train_batch_start()?;
        {
            let profiler = self.profiler.clone();
            let _batch = profiler.profile(self.actions.run_training_batch);
            let loss = self.optimize(&mut optimizers.optimizer, batch, accumulation)?;
            self.read_loss(&optimizers.optimizer, &loss, is_last_of_epoch)?;
        }
        if accumulation.is_last {
            self.lr_scheduler_step(optimizers, LrInterval::Step)?;
        }
        if is_last_of_epoch {
            self.lr_scheduler_step(optimizers, LrInterval::Epoch)?;
        }
        self.go_on()?;
        self.on_train_batch_end()?;
        Ok(accumulation.is_last)
    }

    /// Unless the profiler has seen a reason to stop.
    fn go_on(&self) -> Result<(), TrainError> {
        match self.profiler.reason_to_stop() {
            Some(reason) => Err(TrainError::Stopped { reason, place: self.state.place() }),
            None => Ok(()),
        }
    }

    fn optimize(
        &mut self,
        optimizer: &mut M::Optimizer,
        batch: &M::Batch,
        accumulation: Accumulation,
    ) -> Result<LossOf<M>, TrainError> {
        if !accumulation.is_last {
            let loss = self.forward_backward(optimizer, batch, accumulation)?;
            self.look_again(optimizer, batch);
            return Ok(loss);
        }
        let profiler = self.profiler.clone();
        let _step = profiler.profile(self.actions.optimizer_step);
        let loss = self.forward_backward(optimizer, batch, accumulation)?;
        failed_in("unscaling gradients", &self.state, optimizer.unscale_gradients())?;
        self.look_again(optimizer, batch);
        self.on_before_optimizer_step(optimizer)?;
        {
            let _clipping = profiler.profile(self.actions.configure_gradient_clipping);
            let max_norm = self.settings.gradient_clip_val;
            let result =
                self.module.configure_gradient_clipping(optimizer, max_norm, &mut self.state);
            failed_in("configure_gradient_clipping", &self.state, result)?;
        }
        self.go_on()?;
        {
            let _update = profiler.profile(self.actions.optimizer_update);
            failed_in("optimizer step", &self.state, optimizer.step())?;
        }
        self.state.global_step += 1;
        Ok(loss)
    }

    fn forward_backward(
        &mut self,
        optimizer: &mut M::Optimizer,
        batch: &M::Batch,
        accumulation: Accumulation,
    ) -> Result<LossOf<M>, TrainError> {
        let profiler = self.profiler.clone();
        let loss = {
            let _forward = profiler.profile(self.actions.training_step);
            let result = self.module.training_step(batch, &mut self.state);
            failed_in("training_step", &self.state, result)?
        };
        if accumulation.is_first {
            self.on_before_zero_grad(optimizer)?;
            let _zero = profiler.profile(self.actions.optimizer_zero_grad);
            let result = self.module.optimizer_zero_grad(optimizer, &mut self.state);
            failed_in("optimizer_zero_grad", &self.state, result)?;
        }
        let _backward = profiler.profile(self.actions.backward);
        self.on_before_backward(optimizer)?;
        // The mean over the accumulated batches, as if they had been one.
        let scale = 1.0 / self.settings.accumulate_grad_batches as f64;
        failed_in("backward", &self.state, optimizer.backward(&loss, scale))?;
        self.on_after_backward(optimizer)?;
        Ok(loss)
    }

    /// Reads the loss where that is due, and refuses one that is no number.
    fn read_loss(
        &mut self,
        optimizer: &M::Optimizer,
        loss: &LossOf<M>,
        is_last_of_epoch: bool,
    ) -> Result<(), TrainError> {
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
            return Err(TrainError::InvalidLoss { loss, place: self.state.place() });
        }
        Ok(())
    }
}
