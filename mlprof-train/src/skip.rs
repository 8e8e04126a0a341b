//! Skipping batches.

use super::state::TrainerState;

/// Error with which a [training step](super::TrainModule::training_step) skips its batch. The batch
/// then has no backward pass, as when Lightning's `training_step` returns `None`.
///
/// An optimizer step that is due still follows, with the gradients of the other accumulated
/// batches. Without any gradients, the parameters do not change.
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
#[error("the batch is skipped")]
pub struct SkipBatch;

mlprof_core::debug_as_display!(SkipBatch);

impl TrainerState {
    /// Skips this training batch and the rest of the epoch, if a hook calls it in
    /// `on_train_batch_start`. Lightning does this when the hook returns −1. The epoch then counts
    /// as complete, but its remaining validations do not run.
    pub fn skip_epoch(&mut self) {
        self.skips_epoch = true;
    }
}
