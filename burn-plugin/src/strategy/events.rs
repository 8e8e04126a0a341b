//! Destination of a loop's events.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::train::{
    EventProcessorError, EventProcessorTraining, LearnerEvent, LearnerModel,
    SupervisedTrainingEventProcessor, TrainStep, TrainingItem,
};

use crate::version::WorkersProgress;

/// Destination of events: the loop's own processor, or one shared by several workers.
pub(super) enum Events<M: LearnerModel> {
    Own(SupervisedTrainingEventProcessor<M>),
    Shared {
        processor: Arc<Mutex<SharedProcessor<M>>>,
        /// Lock that the main worker holds while it validates. The other workers wait with their
        /// events.
        validating: Arc<Mutex<()>>,
        /// Worker index. Worker 0 is the main worker.
        worker: usize,
    },
}

/// A processor with the combined progress of its workers.
pub(super) struct SharedProcessor<M: LearnerModel> {
    pub(super) processor: SupervisedTrainingEventProcessor<M>,
    pub(super) progress: WorkersProgress,
}

impl<M: LearnerModel> Events<M> {
    pub(super) fn with(
        &mut self,
        send: impl FnOnce(&mut SupervisedTrainingEventProcessor<M>) -> Result<(), EventProcessorError>,
    ) -> Result<(), EventProcessorError> {
        match self {
            Self::Own(processor) => send(processor),
            Self::Shared { processor, validating, worker } => {
                let _turn = (*worker != 0).then(|| lock(validating));
                send(&mut lock(processor).processor)
            }
        }
    }

    /// Sends a training item with the progress of all workers.
    pub(super) fn item(
        &mut self,
        mut item: TrainingItem<<M as TrainStep>::Output>,
    ) -> Result<(), EventProcessorError> {
        match self {
            Self::Own(processor) => processor.process_train(LearnerEvent::ProcessedItem(item)),
            Self::Shared { processor, validating, worker } => {
                let _turn = (*worker != 0).then(|| lock(validating));
                let mut shared = lock(processor);
                shared.progress.add(*worker, &mut item);
                shared.processor.process_train(LearnerEvent::ProcessedItem(item))
            }
        }
    }

    /// Calls `change` with the progress of all workers. Returns `None` if there is only one loop.
    pub(super) fn workers<T>(&self, change: impl FnOnce(&mut WorkersProgress) -> T) -> Option<T> {
        match self {
            Self::Own(_) => None,
            Self::Shared { processor, .. } => Some(change(&mut lock(processor).progress)),
        }
    }

    /// Returns `true` for the only worker, or for the main worker, whose batches count as steps.
    pub(super) fn is_main(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared { worker, .. } => *worker == 0,
        }
    }

    /// Returns the lock that the main worker holds while it validates, or `None` without other
    /// workers.
    pub(super) fn validating(&self) -> Option<Arc<Mutex<()>>> {
        match self {
            Self::Own(_) => None,
            Self::Shared { validating, .. } => Some(validating.clone()),
        }
    }
}

/// Locks `mutex` and ignores poisoning. The thread that joins a panicked worker reports its panic.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
