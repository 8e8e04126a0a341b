//! Epochs with mlprof's trainer.

use std::cell::RefCell;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mlprof_core::Profiler;
use mlprof_train::{DataLoader, EpochContext, Result as HookResult, TrainModule, Trainer};

use super::Clock;

/// The action that begins a step of the trainer, in which it waits for a batch.
pub const TRAINER_STEP_BEGINS: &str = "[_TrainingEpochLoop].train_dataloader_next";

/// Trains for one epoch with a minimal trainer, without callbacks and progress bar. Returns the
/// length of every step except the last one, from fetch to fetch.
///
/// # Errors
///
/// Returns the error of the module or the loader.
pub fn trainer_epoch<M: TrainModule>(
    module: &mut M,
    data: &dyn DataLoader<M::Batch>,
    profiler: Arc<dyn Profiler>,
    clock: Clock,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let clocked = Clocked { data, clock, times: RefCell::default() };
    let trainer = Trainer::new().max_epochs(1).progress_bar(false);
    trainer.profiler(profiler).fit(module, &clocked, None)?;
    let times = clocked.times.into_inner();
    Ok(times.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

/// Records the time of every batch request. Unlike a callback, it has no hooks, which would be
/// measured as well.
struct Clocked<'data, Batch> {
    data: &'data dyn DataLoader<Batch>,
    clock: Clock,
    times: RefCell<Vec<Duration>>,
}

impl<Batch> DataLoader<Batch> for Clocked<'_, Batch> {
    fn batches<'loader>(
        &'loader self,
        context: &EpochContext,
    ) -> HookResult<Box<dyn Iterator<Item = HookResult<Batch>> + 'loader>> {
        let batches = self.data.batches(context)?;
        Ok(Box::new(ClockedBatches { batches, clock: self.clock, times: &self.times }))
    }
}

struct ClockedBatches<'loader, Batch> {
    batches: Box<dyn Iterator<Item = HookResult<Batch>> + 'loader>,
    clock: Clock,
    times: &'loader RefCell<Vec<Duration>>,
}

impl<Batch> Iterator for ClockedBatches<'_, Batch> {
    type Item = HookResult<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.times.borrow_mut().push(self.clock.now());
        self.batches.next()
    }

    // Without a known length, the trainer would request one more batch.
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.batches.size_hint()
    }
}
