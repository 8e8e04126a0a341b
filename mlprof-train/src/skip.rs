//! Leaving batches out.

use super::state::TrainerState;

/// Error with which a [training step](super::TrainModule::training_step) skips its batch: there is
/// no backward then, as when Lightning's `training_step` returns `None`.
///
/// The optimizer's step that is due follows, with the gradients of the other batches that are
/// accumulated; without any, parameters do not change.
///
/// ```
/// use mlprof_train::{Result, SkipBatch};
///
/// fn training_step(batch: &[f32]) -> Result<f32> {
///     if batch.is_empty() {
///         return Err(SkipBatch.into());
///     }
///     Ok(batch.iter().sum())
/// }
/// # assert!(training_step(&[]).unwrap_err().is::<SkipBatch>());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the batch is to be skipped")]
pub struct SkipBatch;

mlprof_core::debug_as_display!(SkipBatch);

impl TrainerState {
    /// Skips this training batch and the rest of the epoch, when a hook calls it in
    /// `on_train_batch_start`: as when Lightning's returns −1. The epoch then ends as a whole one,
    /// without the validation that was to come.
    pub fn skip_epoch(&mut self) {
        self.skips_epoch = true;
    }
}
