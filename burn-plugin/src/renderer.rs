//! Measures the renderer and its progress calls.

use std::error::Error;

use burn::train::LearnerSummary;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use burn::train::metric::MetricDefinition;
use burn::train::renderer::{
    EvaluationName, MetricState, MetricsRenderer, MetricsRendererEvaluation,
    MetricsRendererTraining,
};
use mlprof_core::{Action, ActiveScope, Binding, Bound, Interest};

use crate::actions;

/// A renderer that is measured on the thread where burn calls it: passing values as
/// `[MetricsRenderer].update`, showing progress as `[MetricsRenderer].progress`.
///
/// [`ProfiledTraining::renderer`](crate::ProfiledTraining::renderer) wraps a renderer
/// automatically.
pub struct ProfiledRenderer {
    renderer: Box<dyn MetricsRenderer>,
    update: Action,
    progress: Action,
    /// Binds the profiler to the event thread on which burn calls the renderer.
    binding: Binding,
}
mlprof_core::debug_as_name!([] ProfiledRenderer);

impl ProfiledRenderer {
    /// Creates a renderer that measures `renderer`.
    pub fn new(renderer: Box<dyn MetricsRenderer>) -> Self {
        Self {
            renderer,
            update: Action::new(actions::RENDERER_UPDATE),
            progress: Action::new(actions::RENDERER_PROGRESS),
            binding: Binding::current(),
        }
    }

    fn in_update(&mut self) -> (&mut dyn MetricsRenderer, (ActiveScope, Bound)) {
        self.inside(self.update)
    }

    fn in_progress(&mut self) -> (&mut dyn MetricsRenderer, (ActiveScope, Bound)) {
        self.inside(self.progress)
    }

    fn inside(&mut self, action: Action) -> (&mut dyn MetricsRenderer, (ActiveScope, Bound)) {
        let bound = self.binding.bind();
        let scope = ActiveScope::open(|| action, Interest::ACTIONS);
        (&mut *self.renderer, (scope, bound))
    }
}

impl MetricsRendererTraining for ProfiledRenderer {
    fn update_train(&mut self, state: MetricState) {
        let (renderer, _scope) = self.in_update();
        renderer.update_train(state);
    }

    fn update_valid(&mut self, state: MetricState) {
        let (renderer, _scope) = self.in_update();
        renderer.update_valid(state);
    }

    fn on_train_end(&mut self, summary: Option<LearnerSummary>) -> Result<(), Box<dyn Error>> {
        self.renderer.on_train_end(summary)
    }
}

impl MetricsRendererEvaluation for ProfiledRenderer {
    fn update_test(&mut self, name: EvaluationName, state: MetricState) {
        let (renderer, _scope) = self.in_update();
        renderer.update_test(name, state);
    }

    fn on_test_end(&mut self, summary: Option<LearnerSummary>) -> Result<(), Box<dyn Error>> {
        self.renderer.on_test_end(summary)
    }
}

impl TrainingProgressLogger for ProfiledRenderer {
    crate::progress::training_progress!();
}

impl EvaluationProgressLogger for ProfiledRenderer {
    crate::progress::evaluation_progress!();
}

impl MetricsRenderer for ProfiledRenderer {
    fn manual_close(&mut self) {
        self.renderer.manual_close();
    }

    fn register_metric(&mut self, definition: MetricDefinition) {
        self.renderer.register_metric(definition);
    }
}
