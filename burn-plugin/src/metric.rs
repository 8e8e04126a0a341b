//! Metrics, renderers and loggers that say what they cost on their own thread.

use burn::tensor::TensorReadError;
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericEntry, SerializedEntry,
};
use mlprof_core::{Action, ActiveScope, Binding, Interest};

use crate::actions;

/// A metric whose `update` and `compute` are measured on the thread where burn runs them.
///
/// [`ProfiledTraining::metrics`](crate::ProfiledTraining::metrics) and its siblings wrap metrics
/// by themselves; wrap by hand those that are registered before `.profiler(…)`. Name, values and
/// errors are the metric's own. *Cost* without an active profiler: one relaxed load.
#[derive(Debug, Clone)]
pub struct ProfiledMetric<Me> {
    metric: Me,
    update: Action,
    compute: Action,
    /// burn runs it on a thread of its own.
    binding: Binding,
}

impl<Me: Metric> ProfiledMetric<Me> {
    /// Measures `metric` as `[Metric]{its type}.update` and `.compute`.
    pub fn new(metric: Me) -> Self {
        Self {
            metric,
            update: Action::new(&actions::metric::<Me>("update")),
            compute: Action::new(&actions::metric::<Me>("compute")),
            binding: Binding::current(),
        }
    }
}

impl<Me: Metric> Metric for ProfiledMetric<Me> {
    type Input = Me::Input;

    fn name(&self) -> MetricName {
        self.metric.name()
    }

    fn description(&self) -> Option<String> {
        self.metric.description()
    }

    fn attributes(&self) -> MetricAttributes {
        self.metric.attributes()
    }

    fn update(
        &mut self,
        item: &Self::Input,
        metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        let _bound = self.binding.bind();
        let _scope = ActiveScope::open(|| self.update, Interest::ACTIONS);
        self.metric.update(item, metadata)
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        let _bound = self.binding.bind();
        let _scope = ActiveScope::open(|| self.compute, Interest::ACTIONS);
        self.metric.compute()
    }

    fn clear(&mut self) {
        self.metric.clear();
    }
}

impl<Me: Numeric> Numeric for ProfiledMetric<Me> {
    fn value(&self) -> Option<NumericEntry> {
        self.metric.value()
    }

    fn running_value(&self) -> Option<NumericEntry> {
        self.metric.running_value()
    }

    fn final_value(&self) -> NumericEntry {
        self.metric.final_value()
    }
}
