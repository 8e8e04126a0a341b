//! Fetching batches: measures each wait and detects the last batch.

use super::actions::{LoaderActions, loader_name};
use super::error::{BoxError, Result, TrainError};
use super::portion::Portion;
use super::state::TrainerState;
use mlprof_core::{Profiler, ProfilerExt};

type BatchIterator<'loader, Batch> = Box<dyn Iterator<Item = Result<Batch>> + 'loader>;

/// Batches of one pass over a loader.
///
/// The loop must know that a batch is the last one before it runs it, because the accumulated
/// gradients are then applied. If the iterator reports its length, `next` is called only that many
/// times. Otherwise, one batch is fetched ahead.
pub(super) struct Batches<'loader, Batch> {
    iterator: BatchIterator<'loader, Batch>,
    /// Number of batches, if the iterator knows it.
    available: Option<usize>,
    /// Maximum number of batches to use.
    limit: Option<usize>,
    ahead: Option<Batch>,
    fetched: usize,
    is_over: bool,
    actions: LoaderActions,
}

impl<'loader, Batch> Batches<'loader, Batch> {
    /// Creates a pass over the iterator's batches, up to `limit`. `setting` is the limit's name in
    /// messages.
    pub(super) fn new(
        iterator: BatchIterator<'loader, Batch>,
        limit: Portion,
        setting: &str,
        actions: LoaderActions,
    ) -> Result<Self, TrainError> {
        let available = match iterator.size_hint() {
            (low, Some(high)) if low == high => Some(low),
            _ => None,
        };
        let limit = limit.limit_of(available, setting).map_err(TrainError::Setting)?;
        Ok(Self { iterator, available, limit, ahead: None, fetched: 0, is_over: false, actions })
    }

    /// Returns the number of batches that will be used, if it is known.
    pub(super) fn total(&self) -> Option<usize> {
        self.available.and(self.limit)
    }

    /// Returns the next batch, and `true` if it is the last one.
    pub(super) fn next(
        &mut self,
        profiler: &dyn Profiler,
        state: &TrainerState,
    ) -> Result<Option<(Batch, bool)>, TrainError> {
        let next = match self.ahead.take() {
            Some(batch) => Some(batch),
            None => self.fetch(profiler, state)?,
        };
        let Some(batch) = next else { return Ok(None) };
        if self.available.is_none() {
            self.ahead = self.fetch(profiler, state)?;
        }
        Ok(Some((batch, self.is_at_end())))
    }

    /// Skips the first `number` batches.
    pub(super) fn skip(
        &mut self,
        number: usize,
        profiler: &dyn Profiler,
        state: &TrainerState,
    ) -> Result<(), TrainError> {
        for skipped in 0..number {
            if self.fetch(profiler, state)?.is_none() {
                let message = format!(
                    "the checkpoint was saved after {number} batches of this epoch, but the \
                     loader has only {skipped}"
                );
                return Err(self.error(state, message.into()));
            }
        }
        if number > 0 && self.available.is_none() {
            self.ahead = self.fetch(profiler, state)?;
        }
        Ok(())
    }

    /// Returns `true` if all batches have been returned. If the loader does not report its length,
    /// this is known only after the first batch.
    pub(super) fn is_at_end(&self) -> bool {
        self.ahead.is_none() && (self.is_over || self.is_enough())
    }

    fn is_enough(&self) -> bool {
        self.limit.is_some_and(|limit| self.fetched >= limit)
    }

    fn fetch(
        &mut self,
        profiler: &dyn Profiler,
        state: &TrainerState,
    ) -> Result<Option<Batch>, TrainError> {
        if self.is_over || self.is_enough() {
            return Ok(None);
        }
        let fetched = {
            let _scope = profiler.profile(self.actions.next);
            self.iterator.next()
        };
        match (fetched, self.available) {
            (Some(Ok(batch)), _) => {
                self.fetched += 1;
                Ok(Some(batch))
            }
            (Some(Err(source)), _) => Err(self.error(state, source)),
            (None, Some(promised)) => {
                let message = format!(
                    "its size hint was {promised} batches, but it yielded {}",
                    self.fetched
                );
                Err(self.error(state, message.into()))
            }
            (None, None) => {
                self.is_over = true;
                Ok(None)
            }
        }
    }

    fn error(&self, state: &TrainerState, source: BoxError) -> TrainError {
        let mut position = state.position();
        position.batch = Some(self.fetched);
        TrainError::Loader { loader: loader_name(state.stage), position, source }
    }
}
