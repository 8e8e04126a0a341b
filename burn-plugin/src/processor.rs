//! What metrics, their logs and the renderer cost together on their own thread.
//!
//! burn gives every event to a thread that reads the tensors, updates the metrics and calls the
//! renderer. The loop pays for handing over, and waits while one event is being worked on and
//! another one is queued. What that thread does cannot be reached from outside for metrics that
//! were registered before `.profiler(…)`. So another thread is put in between that hands each event on,
//! waits until it is done, and measures that. It too queues one event, so the loop waits as much
//! as it did.

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

/// Measures what `inner` does with each event, on a thread of its own.
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
        // An event's failure comes out of either call, never of both: it is reported once.
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
