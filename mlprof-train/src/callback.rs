//! What is called along the way beside the module.

use super::checkpoint::Checkpoint;
use super::error::{BoxError, Result};
use super::hooks::{optimizer_hooks, plain_methods, shared_hooks};
use super::saved_state::SavedState;
use super::state::TrainerState;

/// Something that follows a run, and may end it: early stopping, a logger, a progress bar.
///
/// Every hook of every callback is measured as `[Callback]{name}.{hook}`, the empty ones, too.
///
/// ```
/// use mlprof_train::{Callback, Result, TrainerState};
///
/// /// Ends training when the validation loss is low enough.
/// struct Enough(f64);
///
/// impl Callback for Enough {
///     fn on_validation_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
///         if trainer.metric("val_loss").is_some_and(|loss| loss < self.0) {
///             trainer.stop("the validation loss is low enough");
///         }
///         Ok(())
///     }
/// }
/// ```
///
/// [`EarlyStopping`](super::EarlyStopping), [`ModelCheckpoint`](super::ModelCheckpoint) and
/// [`LearningRateMonitor`](super::LearningRateMonitor) are there already. A callback that needs the
/// module is a [`ModuleCallback`](super::ModuleCallback).
pub trait Callback {
    /// Its name in reports; the name of its type by default.
    fn name(&self) -> String {
        mlprof_core::names::short_type_name::<Self>().to_owned()
    }

    /// The sanity check begins.
    ///
    /// # Errors
    ///
    /// Whatever is returned ends the stage, after its report.
    fn on_sanity_check_start(&mut self, trainer: &mut TrainerState) -> Result<()> {
        let _ = trainer;
        Ok(())
    }

    /// The sanity check ends.
    ///
    /// # Errors
    ///
    /// Whatever is returned ends the stage, after its report.
    fn on_sanity_check_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        let _ = trainer;
        Ok(())
    }

    shared_hooks!(plain_methods);
    optimizer_hooks!(plain_methods);

    /// Name of the callback's state in checkpoints: its [`name`](Self::name), unless a trainer has
    /// several of the type that are told apart by their settings.
    fn state_key(&self) -> String {
        self.name()
    }

    /// Returns the state that a checkpoint keeps; nothing by default.
    fn state(&self) -> SavedState {
        SavedState::new()
    }

    /// Restores what [`state`](Self::state) returned, when training is resumed.
    ///
    /// # Errors
    ///
    /// If it is not such a state. Nothing has changed then.
    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        let _ = state;
        Ok(())
    }

    /// A checkpoint is about to be written: add sections of the callback's own.
    ///
    /// # Errors
    ///
    /// Whatever is returned ends the stage, after its report.
    fn on_save_checkpoint(
        &mut self,
        checkpoint: &mut Checkpoint,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, trainer);
        Ok(())
    }

    /// Training is resumed from a checkpoint, which is loaded: read the callback's own sections.
    ///
    /// # Errors
    ///
    /// Whatever is returned ends the stage, after its report.
    fn on_load_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, trainer);
        Ok(())
    }

    /// Whether the callback decides which checkpoints are saved. The trainer then saves none by
    /// itself after each epoch. False by default.
    fn saves_checkpoints(&self) -> bool {
        false
    }

    /// Whether the callback watches metrics: its `on_train_epoch_end` is then called after the
    /// module's, which may log one there. By default so are those that save checkpoints.
    fn is_monitor(&self) -> bool {
        self.saves_checkpoints()
    }

    /// The stage ends by an error; no other hook is called after it.
    fn on_exception(&mut self, trainer: &mut TrainerState, error: &BoxError) {
        let _ = (trainer, error);
    }
}
