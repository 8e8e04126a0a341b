//! The trait that users implement: a model and how it learns.

mod callback;

pub use callback::{Callback, HookContext};

use std::path::Path;

use crate::checkpoint::Checkpoint;
use crate::error::Result;
use crate::hooks::{module_hooks, optimizer_hooks, plain_methods, shared_hooks};
use crate::optimizer::{GradientClipAlgorithm, Optimizers, TrainOptimizer};
use crate::saved_state::SavedState;
use crate::state::TrainerState;

/// Declares trait methods that also receive the optimizer, with empty default bodies.
macro_rules! methods_with_optimizer {
    ([] $($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// An error ends the fit, after its report.
        fn $name(
            &mut self,
            optimizer: &mut Self::Optimizer,
            trainer: &mut TrainerState,
        ) -> Result<()> {
            let _ = (optimizer, trainer);
            Ok(())
        }
    )*};
}

/// Loss of a module, from which its optimizer starts backward.
pub type LossOf<M> = <<M as TrainModule>::Optimizer as TrainOptimizer>::Loss;

/// A model and how it learns: the counterpart of Lightning's `LightningModule`.
///
/// Only a training step and an optimizer are required. The other hooks are Lightning's and have
/// empty defaults. The guide lists the Lightning hooks that do not exist here.
///
/// Each hook is measured as `[LightningModule]{Type}.{hook}`, where `{Type}` is the implementing
/// type. Steps are measured as `[Strategy]SingleDeviceStrategy.{step}`.
pub trait TrainModule: Sized {
    /// Batch that loaders yield. Several tensors are a tuple or a struct.
    type Batch;
    /// Optimizer of the framework's plugin.
    type Optimizer: TrainOptimizer;

    /// Runs the forward pass of a training batch and returns the loss.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report.
    fn training_step(
        &mut self,
        batch: &Self::Batch,
        trainer: &mut TrainerState,
    ) -> Result<LossOf<Self>>;

    /// Returns the optimizer, with a learning rate schedule if there is one.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report.
    fn configure_optimizers(&mut self) -> Result<Optimizers<Self::Optimizer>>;

    /// Runs a validation batch. [Log](TrainerState::log_with) its metrics.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn validation_step(&mut self, batch: &Self::Batch, trainer: &mut TrainerState) -> Result<()> {
        let _ = (batch, trainer);
        Ok(())
    }

    /// Runs a test batch. [Log](TrainerState::log_with) its metrics.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn test_step(&mut self, batch: &Self::Batch, trainer: &mut TrainerState) -> Result<()> {
        let _ = (batch, trainer);
        Ok(())
    }

    /// Predicts a batch. Keep the predictions in the module, or use
    /// [`Trainer::predict_with`](super::Trainer::predict_with), which returns them.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn predict_step(&mut self, batch: &Self::Batch, trainer: &mut TrainerState) -> Result<()> {
        let _ = (batch, trainer);
        Ok(())
    }

    /// Returns the number of samples of a training batch, from which `mlprof top` computes samples
    /// per second: usually a tensor's first dimension. `None`, the default, if it is unknown.
    fn batch_size(&self, batch: &Self::Batch) -> Option<usize> {
        let _ = batch;
        None
    }

    /// Returns the module's own callbacks, which are called after those of the trainer.
    fn configure_callbacks(&mut self) -> Vec<Box<dyn Callback<Self>>> {
        Vec::new()
    }

    /// Seeds the framework's random number generators. If the trainer has a
    /// [`seed`](super::Trainer::seed), it calls this method before everything else. A model that
    /// exists by then already has its weights, so also seed before creating the model.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn seed_everything(&mut self, seed: u64) -> Result<()> {
        let _ = seed;
        Ok(())
    }

    shared_hooks!(plain_methods);
    module_hooks!(plain_methods);
    optimizer_hooks!(methods_with_optimizer);

    /// Changes a batch before it is moved to the device.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn on_before_batch_transfer(
        &mut self,
        batch: Self::Batch,
        trainer: &mut TrainerState,
    ) -> Result<Self::Batch> {
        let _ = trainer;
        Ok(batch)
    }

    /// Moves a batch to the device. By default, the batch stays where it is.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn transfer_batch_to_device(
        &mut self,
        batch: Self::Batch,
        trainer: &mut TrainerState,
    ) -> Result<Self::Batch> {
        let _ = trainer;
        Ok(batch)
    }

    /// Changes a batch on the device.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn on_after_batch_transfer(
        &mut self,
        batch: Self::Batch,
        trainer: &mut TrainerState,
    ) -> Result<Self::Batch> {
        let _ = trainer;
        Ok(batch)
    }

    /// Clears gradients before a validation inside of a fit, unless more are to be added to them.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report.
    fn on_validation_model_zero_grad(
        &mut self,
        optimizer: &mut Self::Optimizer,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = trainer;
        optimizer.zero_grad()
    }

    /// Clears gradients, at the first batch of those that are accumulated.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report.
    fn optimizer_zero_grad(
        &mut self,
        optimizer: &mut Self::Optimizer,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = trainer;
        optimizer.zero_grad()
    }

    /// Clips gradients to the trainer's `gradient_clip_val`, if it has one, by its
    /// `gradient_clip_algorithm`.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report.
    fn configure_gradient_clipping(
        &mut self,
        optimizer: &mut Self::Optimizer,
        gradient_clip_val: Option<f64>,
        gradient_clip_algorithm: GradientClipAlgorithm,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = trainer;
        match (gradient_clip_val, gradient_clip_algorithm) {
            (None, _) => Ok(()),
            (Some(max_norm), GradientClipAlgorithm::Norm) => optimizer.clip_gradients(max_norm),
            (Some(max_value), GradientClipAlgorithm::Value) => {
                optimizer.clip_gradients_by_value(max_value)
            }
        }
    }

    /// Returns the weights for a checkpoint that training can be
    /// [resumed](super::Trainer::resume) from; the plugins have functions for it. `None`,
    /// the default, leaves checkpoints to [`save_checkpoint`](Self::save_checkpoint): they are then
    /// weights alone.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report. Earlier checkpoints stay.
    fn weights(&mut self) -> Result<Option<SavedState>> {
        Ok(None)
    }

    /// Restores weights that were returned by [`weights`](Self::weights). The plugins have
    /// functions for it.
    ///
    /// # Errors
    ///
    /// Returns an error if the weights belong to another model. An implementation must check
    /// everything before it changes anything, so that the model is unchanged after an error.
    fn load_weights(&mut self, weights: &SavedState) -> Result<()> {
        let _ = weights;
        Err("the module does not implement TrainModule::load_weights".into())
    }

    /// Adds the module's own sections to a checkpoint that is about to be written.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report.
    fn on_save_checkpoint(
        &mut self,
        checkpoint: &mut Checkpoint,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, trainer);
        Ok(())
    }

    /// Reads the module's own sections from a checkpoint when training is resumed. The weights are
    /// already loaded.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report.
    fn on_load_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, trainer);
        Ok(())
    }

    /// Writes the model to `path`. It is called only for a module without
    /// [`weights`](Self::weights).
    ///
    /// If the trainer has a [`checkpoint_dir`](super::Trainer::checkpoint_dir), it calls this
    /// method after every epoch. `path` is in a temporary folder next to the other checkpoints.
    /// When the method has returned, the file at `path` becomes the checkpoint. The trainer also
    /// calls it once before the first batch, as a test, and discards that file.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report. Earlier checkpoints stay.
    fn save_checkpoint(&mut self, path: &Path) -> Result<()> {
        let _ = path;
        Err("cannot save checkpoints: the module does not implement TrainModule::save_checkpoint; \
             implement it, or do not set checkpoint_dir"
            .into())
    }

    /// Returns the extension of checkpoint files.
    fn checkpoint_extension(&self) -> &'static str {
        "safetensors"
    }
}
