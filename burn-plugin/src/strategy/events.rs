//! Where a loop's events go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::train::{
    EventProcessorError, EventProcessorTraining, LearnerEvent, LearnerModel,
    SupervisedTrainingEventProcessor, TrainStep, TrainingItem,
};

use crate::version::WorkersProgress;

/// Where events go: to a processor of its own, or to one that several workers share.
pub(super) enum Events<M: LearnerModel> {
    Own(SupervisedTrainingEventProcessor<M>),
    Shared {
        processor: Arc<Mutex<SharedProcessor<M>>>,
        /// Held by the main worker while it validates; the others then wait with their events.
        validating: Arc<Mutex<()>>,
        /// The worker's number. Number 0 is the main one.
        worker: usize,
    },
}

/// A processor with the progress that its workers report together.
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

    /// Sends a training item, with the progress of all workers.
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

    /// Changes or reads the progress of all workers. Returns `None` where there is one loop.
    pub(super) fn workers<T>(&self, change: impl FnOnce(&mut WorkersProgress) -> T) -> Option<T> {
        match self {
            Self::Own(_) => None,
            Self::Shared { processor, .. } => Some(change(&mut lock(processor).progress)),
        }
    }

    /// Whether this is the only worker, or the one whose batches count as steps.
    pub(super) fn is_main(&self) -> bool {
        match self {
            Self::Own(_) => true,
            Self::Shared { worker, .. } => *worker == 0,
        }
    }

    /// What the main worker holds while it validates, if there are others.
    pub(super) fn validating(&self) -> Option<Arc<Mutex<()>>> {
        match self {
            Self::Own(_) => None,
            Self::Shared { validating, .. } => Some(validating.clone()),
        }
    }
}

/// A panic of another worker is reported by whoever joins it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
