//! Callbacks: code that follows a run beside the module.

use super::{LossOf, TrainModule};
use crate::checkpoint::Checkpoint;
use crate::error::{Result, TrainError};
use crate::hooks::{callback_hooks, optimizer_hooks, shared_hooks};
use crate::saved_state::SavedState;
use crate::state::TrainerState;

/// The module and the objects of the running batch, as the hooks of a [`Callback`] receive them.
///
/// [`TrainerState::batch_index`] is the index of the batch.
#[non_exhaustive]
pub struct HookContext<'hook, M: TrainModule> {
    /// The module that is trained or evaluated.
    pub module: &'hook mut M,
    /// The module's optimizer; `None` before it is configured, and outside of a fit.
    pub optimizer: Option<&'hook mut M::Optimizer>,
    /// The batch on the device; `None` outside of batches.
    pub batch: Option<&'hook M::Batch>,
    /// The loss that the training step returned; `None` before that step, and in evaluations.
    pub loss: Option<&'hook LossOf<M>>,
}
mlprof_core::debug_as_name!([M: TrainModule] HookContext<'_, M>);

/// Methods of a trait with an empty default, which receive the context.
macro_rules! methods_with_context {
    ([] $($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// An error ends the stage, after its report.
        fn $name(
            &mut self,
            context: &mut HookContext<'_, M>,
            trainer: &mut TrainerState,
        ) -> Result<()> {
            let _ = (context, trainer);
            Ok(())
        }
    )*};
}

/// Code that follows a run of the module `M`, and may end it: early stopping, a logger, a moving
/// average of the weights.
///
/// Each hook has an empty default. It receives the module with its batch, loss and optimizer
/// ([`HookContext`]), and the state of the run ([`TrainerState`]). The report has a row
/// `[Callback]{name}.{hook}` for every hook of every callback, also for the empty ones.
///
/// # Examples
///
/// A callback that does not look at the module is one for all modules:
///
/// ```
/// use mlprof_train::{Callback, HookContext, Result, TrainModule, TrainerState};
///
/// /// Ends training when the validation loss is low enough.
/// struct Enough(f64);
///
/// impl<M: TrainModule> Callback<M> for Enough {
///     fn on_validation_end(
///         &mut self,
///         _context: &mut HookContext<'_, M>,
///         trainer: &mut TrainerState,
///     ) -> Result<()> {
///         if trainer.metric("val_loss").is_some_and(|loss| loss < self.0) {
///             trainer.stop("the validation loss is low enough");
///         }
///         Ok(())
///     }
/// }
/// ```
///
/// A bound states the requirements of a callback on the module:
///
/// ```
/// # use mlprof_train::{Callback, HookContext, Result, TrainModule, TrainerState};
/// /// Counts the items of batches that are lists.
/// #[derive(Default)]
/// struct Items(usize);
///
/// impl<T, M: TrainModule<Batch = Vec<T>>> Callback<M> for Items {
///     fn on_train_batch_end(
///         &mut self,
///         context: &mut HookContext<'_, M>,
///         _trainer: &mut TrainerState,
///     ) -> Result<()> {
///         self.0 += context.batch.map_or(0, Vec::len);
///         Ok(())
///     }
/// }
/// ```
///
/// [`EarlyStopping`](crate::EarlyStopping), [`ModelCheckpoint`](crate::ModelCheckpoint) and
/// [`LearningRateMonitor`](crate::LearningRateMonitor) come with the crate.
pub trait Callback<M: TrainModule> {
    /// Returns the callback's name in reports; the name of its type by default.
    fn name(&self) -> String {
        mlprof_core::names::short_type_name::<Self>().to_owned()
    }

    callback_hooks!(methods_with_context);
    shared_hooks!(methods_with_context);
    optimizer_hooks!(methods_with_context);

    /// Returns the name of the callback's state in checkpoints; [`name`](Self::name) by default.
    /// Callbacks of one type that differ in their settings return different keys.
    fn state_key(&self) -> String {
        self.name()
    }

    /// Returns the state that a checkpoint keeps; none by default.
    fn state(&self) -> SavedState {
        SavedState::new()
    }

    /// Restores a state that [`state`](Self::state) returned, when training is resumed.
    ///
    /// # Errors
    ///
    /// The state is of another kind. The callback has not changed then.
    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        let _ = state;
        Ok(())
    }

    /// Adds the callback's own sections to a checkpoint that is about to be written.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn on_save_checkpoint(
        &mut self,
        checkpoint: &mut Checkpoint,
        context: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, context, trainer);
        Ok(())
    }

    /// Reads the callback's own sections from a checkpoint when training is resumed. The checkpoint
    /// is already loaded.
    ///
    /// # Errors
    ///
    /// An error ends the stage, after its report.
    fn on_load_checkpoint(
        &mut self,
        checkpoint: &Checkpoint,
        context: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let _ = (checkpoint, context, trainer);
        Ok(())
    }

    /// An error ends the stage; no other hook is called after this one.
    fn on_exception(
        &mut self,
        error: &TrainError,
        context: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) {
        let _ = (error, context, trainer);
    }

    /// Returns whether the callback decides which checkpoints are saved; false by default. If it
    /// does, the trainer saves none by itself after each epoch.
    fn saves_checkpoints(&self) -> bool {
        false
    }

    /// Returns whether the callback watches metrics; by default if it saves checkpoints. Its
    /// `on_train_epoch_end` is called after the module's, which may log a metric.
    fn is_monitor(&self) -> bool {
        self.saves_checkpoints()
    }
}
