//! Measures the total cost of metrics, their logs and the renderer on the event thread.
//!
//! burn sends every event to the event thread, which reads the tensors, updates the metrics and
//! calls the renderer. The loop pays for the handover. It waits while one event is being processed
//! and another one is queued.
//!
//! Work for metrics that were registered before `.profiler(…)` cannot be measured from outside.
//! Therefore, an additional thread receives each event, forwards it, and measures the time until it
//! is processed. This thread also queues one event, so the loop waits as long as before.

use std::sync::Arc;

use burn::train::renderer::MetricsRenderer;
use burn::train::{
    AsyncProcessorTraining, EventProcessorError, EventProcessorTraining, InferenceStep,
    LearnerEvent, LearnerModel, SupervisedTrainingEventProcessor, TrainStep,
};
use mlprof_core::{Action, Profiler, ProfilerExt};

use crate::actions;

type TrainEvent<M> = LearnerEvent<<M as TrainStep>::Output>;
type ValidEvent<M> = LearnerEvent<<M as InferenceStep>::Output>;

struct ProfiledProcessor<M: LearnerModel> {
    inner: SupervisedTrainingEventProcessor<M>,
    profiler: Arc<dyn Profiler>,
    train: Action,
    valid: Action,
}

/// Wraps `inner` and measures its processing of each event on a separate thread.
pub(crate) fn profiled_processor<M: LearnerModel>(
    inner: SupervisedTrainingEventProcessor<M>,
    profiler: Arc<dyn Profiler>,
) -> SupervisedTrainingEventProcessor<M> {
    AsyncProcessorTraining::new(ProfiledProcessor::<M> {
        inner,
        profiler,
        train: Action::new(actions::PROCESS_TRAIN),
        valid: Action::new(actions::PROCESS_VALID),
    })
}

impl<M: LearnerModel> EventProcessorTraining<TrainEvent<M>, ValidEvent<M>>
    for ProfiledProcessor<M>
{
    fn process_train(&mut self, event: TrainEvent<M>) -> Result<(), EventProcessorError> {
        let _scope = self.profiler.profile(self.train);
        // Only one of the two calls returns an event's error, so that it is reported once.
        let handed_over = self.inner.process_train(event);
        self.inner.flush().and(handed_over)
    }

    fn process_valid(&mut self, event: ValidEvent<M>) -> Result<(), EventProcessorError> {
        let _scope = self.profiler.profile(self.valid);
        let handed_over = self.inner.process_valid(event);
        self.inner.flush().and(handed_over)
    }

    fn renderer(self) -> Box<dyn MetricsRenderer> {
        self.inner.renderer()
    }
}
