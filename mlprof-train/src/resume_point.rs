//! The point at which a training resumes.

/// Point at which training resumes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResumePoint {
    /// The epoch, from 0.
    pub(crate) epoch: usize,
    /// Number of its batches that have been learned from.
    pub(crate) batch: usize,
    /// Whether the validation that is due after that batch has begun.
    pub(crate) is_validated: bool,
    /// Whether a schedule that follows a metric has not seen those of the last epoch.
    pub(crate) is_plateau_due: bool,
    /// Number of batches of the epochs before.
    pub(crate) earlier_batches: usize,
}

impl ResumePoint {
    /// A whole epoch has ended, after this number of batches in all.
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
