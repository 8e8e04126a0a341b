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

/// Methods of a module around its optimizer, with an empty default.
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
/// A training step and an optimizer are all that must be written; the other hooks have empty
/// defaults. They are Lightning's, and the guide lists those of Lightning that are not here. Each
/// is measured as `[LightningModule]{Type}.{hook}`, where `{Type}` is the implementing type; the
/// steps as `[Strategy]SingleDeviceStrategy.{step}`.
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
    /// [`Trainer::predict_with`](crate::Trainer::predict_with), which returns them.
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

    /// Seeds the framework's random numbers. Called before everything else when the trainer has a
    /// [`seed`](crate::Trainer::seed). A model that exists by then has its weights already: seed
    /// before making it, too.
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

    /// Moves a batch to the device. By default it stays where it is.
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
    /// [resumed](crate::Trainer::resume) from; the plugins have functions for it. `None`,
    /// the default, leaves checkpoints to [`save_checkpoint`](Self::save_checkpoint): they are then
    /// weights alone.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report. Earlier checkpoints stay.
    fn weights(&mut self) -> Result<Option<SavedState>> {
        Ok(None)
    }

    /// Restores what [`weights`](Self::weights) returned; the plugins have functions for it.
    ///
    /// # Errors
    ///
    /// If they are the weights of another model. Nothing has changed then: an implementation checks
    /// everything first.
    fn load_weights(&mut self, weights: &SavedState) -> Result<()> {
        let _ = weights;
        Err("the module does not implement TrainModule::load_weights".into())
    }

    /// A checkpoint is about to be written: add sections of the module's own.
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

    /// Training is resumed from a checkpoint, whose weights are loaded: read the module's own
    /// sections.
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

    /// Writes the model to `path`, if it has no [`weights`](Self::weights). Called after every
    /// epoch when the trainer has a [`checkpoint_dir`](crate::Trainer::checkpoint_dir): with a path
    /// in a temporary folder beside the other checkpoints. That one file becomes the checkpoint
    /// when this has returned. Before the first batch it is called once on trial, for a file that
    /// is thrown away.
    ///
    /// # Errors
    ///
    /// An error ends the fit, after its report. Earlier checkpoints stay.
    fn save_checkpoint(&mut self, path: &Path) -> Result<()> {
        let _ = path;
        Err("the module has no save_checkpoint: implement TrainModule::save_checkpoint, or leave \
             checkpoint_dir out"
            .into())
    }

    /// Returns the extension of checkpoint files.
    fn checkpoint_extension(&self) -> &'static str {
        "safetensors"
    }
}
