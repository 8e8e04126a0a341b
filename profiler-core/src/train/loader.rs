//! Where batches come from.

use super::error::Result;

/// What a loader may want to know when an epoch begins: to shuffle differently each time, and to
/// give each process its part of the data.
///
/// The default is the first epoch of the only process, to try a loader without a trainer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpochContext {
    /// From 0. Evaluations see the epoch they happen in.
    pub epoch: usize,
    /// The trainer's seed; 0 if it has none.
    pub seed: u64,
    /// The number of this process among all of the run.
    pub rank: u32,
    /// How many processes take part.
    pub world_size: u32,
}

impl Default for EpochContext {
    fn default() -> Self {
        Self { epoch: 0, seed: 0, rank: 0, world_size: 1 }
    }
}

/// Gives the batches of one epoch after another.
///
/// Implemented for a `Vec` of batches that can be cloned (cheap for tensors that share their data),
/// and for closures from an [`EpochContext`] to an iterator:
///
/// ```
/// use profiler_core::train::{DataLoader, EpochContext, Result};
///
/// fn numbers() -> impl DataLoader<usize> {
///     |context: &EpochContext| {
///         let first = context.epoch * 10;
///         (first..first + 10).map(Ok)
///     }
/// }
/// ```
///
/// A loader that works ahead on threads of its own starts them in [`batches`](Self::batches) and
/// lets them end when the iterator is dropped: an epoch may be left early.
pub trait DataLoader<Batch> {
    /// The batches of an epoch. Called once per epoch, measured as `train_dataloader`,
    /// `val_dataloader`, `test_dataloader` or `predict_dataloader`; each `next` is measured as
    /// waiting for data. An iterator with an exact `size_hint` makes limits given as a share, and
    /// a progress bar with an end, possible.
    ///
    /// # Errors
    ///
    /// Whatever keeps the data from being read. Here or from the iterator, it ends the stage; the
    /// report still comes.
    fn batches<'loader>(
        &'loader self,
        context: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + 'loader>>;
}

impl<Batch: Clone> DataLoader<Batch> for Vec<Batch> {
    fn batches<'loader>(
        &'loader self,
        _context: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + 'loader>> {
        Ok(Box::new(self.iter().cloned().map(Ok)))
    }
}

impl<Batch, Batches, Make> DataLoader<Batch> for Make
where
    Make: Fn(&EpochContext) -> Batches,
    Batches: Iterator<Item = Result<Batch>> + 'static,
{
    fn batches<'loader>(
        &'loader self,
        context: &EpochContext,
    ) -> Result<Box<dyn Iterator<Item = Result<Batch>> + 'loader>> {
        Ok(Box::new(self(context)))
    }
}
