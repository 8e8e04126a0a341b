//! Callbacks that see the module.

use super::callback::Callback;
use super::error::Result;
use super::hooks::{optimizer_hooks, shared_hooks};
use super::module::{LossOf, TrainModule};
use super::state::TrainerState;

/// Module and its training data, for the hooks of a [`ModuleCallback`].
///
/// The index of the batch is [`TrainerState::batch_index`].
#[non_exhaustive]
pub struct HookContext<'hook, M: TrainModule> {
    /// Module that is trained or evaluated.
    pub module: &'hook mut M,
    /// Optimizer of the module; `None` before it is configured, and outside of a fit.
    pub optimizer: Option<&'hook mut M::Optimizer>,
    /// Batch on the device; `None` outside of batches.
    pub batch: Option<&'hook M::Batch>,
    /// Loss that the training step returned; `None` before it has returned, and in evaluations.
    pub loss: Option<&'hook LossOf<M>>,
}
mlprof_core::debug_as_name!([M: TrainModule] HookContext<'_, M>);

/// Declares trait methods that also receive the context, with empty default bodies.
macro_rules! methods_with_context {
    ([] $($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// A returned error ends the stage, after its report.
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

/// A [`Callback`] whose hooks also receive the module, its optimizer, the batch and the loss.
/// Examples are a moving average of the weights, a learning rate search, and plots of a layer's
/// output.
///
/// The hooks have the names of `Callback`'s hooks. Each is called after the `Callback` hook of that
/// name, in the same row of the report.
///
/// [`PreparedFit::callback`](super::PreparedFit::callback) adds such a callback to a single fit.
/// Its state in checkpoints is that of the `Callback`.
///
/// ```
/// use mlprof_train::{Callback, HookContext, ModuleCallback, Result, TrainModule, TrainerState};
///
/// /// Counts the batches of every module whose batches are lists.
/// #[derive(Default)]
/// struct Items(usize);
///
/// impl Callback for Items {}
///
/// impl<T, M: TrainModule<Batch = Vec<T>>> ModuleCallback<M> for Items {
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
pub trait ModuleCallback<M: TrainModule>: Callback {
    shared_hooks!(methods_with_context);
    optimizer_hooks!(methods_with_context);
}
