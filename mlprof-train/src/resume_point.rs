//! The point at which a training resumes.

/// Point at which training resumes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResumePoint {
    /// Epoch, counted from 0.
    pub(crate) epoch: usize,
    /// Number of its batches that have been learned from.
    pub(crate) batch: usize,
    /// `true` if the validation that is due after that batch has begun.
    pub(crate) is_validated: bool,
    /// `true` if a schedule that follows a metric has not yet seen the metrics of the last epoch.
    pub(crate) is_plateau_due: bool,
    /// Number of batches in all earlier epochs.
    pub(crate) earlier_batches: usize,
}

impl ResumePoint {
    /// Moves to the start of the next epoch. `batches` is the number of batches in all epochs so
    /// far.
    pub(crate) fn end_epoch(&mut self, epoch: usize, batches: usize) {
        *self = Self {
            epoch: epoch + 1,
            batch: 0,
            is_validated: false,
            is_plateau_due: true,
            earlier_batches: batches,
        };
    }
}
