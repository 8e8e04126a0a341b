//! Callbacks that the trainer calls in addition to the module.

use super::checkpoint::Checkpoint;
use super::error::{BoxError, Result};
use super::hooks::{optimizer_hooks, plain_methods, shared_hooks};
use super::saved_state::SavedState;
use super::state::TrainerState;

/// Follows a run, and may end it. Examples are early stopping, a logger and a progress bar.
///
/// Every hook of every callback is measured as `[Callback]{name}.{hook}`, including hooks with an
/// empty body.
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
/// This crate contains [`EarlyStopping`](super::EarlyStopping),
/// [`ModelCheckpoint`](super::ModelCheckpoint) and
/// [`LearningRateMonitor`](super::LearningRateMonitor). Implement
/// [`ModuleCallback`](super::ModuleCallback) for a callback that needs the module.
pub trait Callback {
    /// Returns the callback's name in reports. The default is the name of its type.
    fn name(&self) -> String {
        mlprof_core::names::short_type_name::<Self>().to_owned()
    }

    /// Runs when the sanity check begins.
    ///
    /// # Errors
    ///
    /// A returned error ends the stage, after its report.
    fn on_sanity_check_start(&mut self, trainer: &mut TrainerState) -> Result<()> {
        let _ = trainer;
        Ok(())
    }

    /// Runs when the sanity check ends.
    ///
    /// # Errors
    ///
    /// A returned error ends the stage, after its report.
    fn on_sanity_check_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        let _ = trainer;
        Ok(())
    }

    shared_hooks!(plain_methods);
    optimizer_hooks!(plain_methods);

    /// Returns the name of the callback's state in checkpoints. The default is its
    /// [`name`](Self::name). Callbacks of one type should include the settings that distinguish
    /// them.
    fn state_key(&self) -> String {
        self.name()
    }

    /// Returns the state for a checkpoint, which is empty by default.
    fn state(&self) -> SavedState {
        SavedState::new()
    }

    /// Restores a state that [`state`](Self::state) returned, when training is resumed.
    ///
    /// # Errors
    ///
    /// Returns an error if `state` does not belong to this callback. The callback must then be
    /// unchanged.
    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        let _ = state;
        Ok(())
    }

    /// Adds the callback's own sections to a checkpoint that is about to be written.
    ///
    /// # Errors
    ///
    /// A returned error ends the stage, after its report.
    fn on_save_checkpoint(
        &mut self,
        checkpoint: &mut Checkpoint,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, trainer);
        Ok(())
    }

    /// Reads the callback's own sections from a checkpoint when training is resumed. The checkpoint
    /// is already loaded.
    ///
    /// # Errors
    ///
    /// A returned error ends the stage, after its report.
    fn on_load_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, trainer);
        Ok(())
    }

    /// Returns `true` if the callback decides which checkpoints are saved. The trainer itself then
    /// saves none after each epoch. The default is `false`.
    fn saves_checkpoints(&self) -> bool {
        false
    }

    /// Returns `true` if the callback watches metrics. Its `on_train_epoch_end` is then called
    /// after the module's, which may log a metric there. The default is `true` for callbacks that
    /// save checkpoints.
    fn is_monitor(&self) -> bool {
        self.saves_checkpoints()
    }

    /// Runs when an error ends the stage. It is the last hook that is called.
    fn on_exception(&mut self, trainer: &mut TrainerState, error: &BoxError) {
        let _ = (trainer, error);
    }
}
