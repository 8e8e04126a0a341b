//! Callbacks that see the module.

use super::callback::Callback;
use super::error::Result;
use super::hooks::{optimizer_hooks, shared_hooks};
use super::module::{LossOf, TrainModule};
use super::state::TrainerState;

/// The module and what it works on, for the hooks of a [`ModuleCallback`].
///
/// The index of the batch is [`TrainerState::batch_index`].
#[non_exhaustive]
pub struct HookContext<'hook, M: TrainModule> {
    /// The module that is trained or evaluated.
    pub module: &'hook mut M,
    /// Its optimizer; `None` before it is configured, and outside of a fit.
    pub optimizer: Option<&'hook mut M::Optimizer>,
    /// The batch on the device; `None` outside of batches.
    pub batch: Option<&'hook M::Batch>,
    /// The loss that the training step returned; `None` before it has, and in evaluations.
    pub loss: Option<&'hook LossOf<M>>,
}
mlprof_core::debug_as_name!([M: TrainModule] HookContext<'_, M>);

/// Methods of a trait with an empty default, which are given the context.
macro_rules! methods_with_context {
    ([] $($name:ident: $doc:literal;)*) => {$(
        #[doc = $doc]
        ///
        /// # Errors
        ///
        /// Whatever is returned ends the stage, after its report.
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

/// A [`Callback`] whose hooks also receive the module, its optimizer, the batch and the loss: for a
/// moving average of the weights, a search for the learning rate, or pictures of what a layer does.
///
/// The hooks have the names of `Callback`'s, and each is called after that one, in the same row of
/// the report. A trainer is given such a callback for one fit, by
/// [`PreparedFit::callback`](super::PreparedFit::callback). State for checkpoints is that of the
/// `Callback`.
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
