//! Metrics whose cost is measured on the event thread.

use burn::tensor::TensorReadError;
use burn::train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericEntry, SerializedEntry,
};
use mlprof_core::{Action, ActiveScope, Binding, Interest};

use crate::actions;

/// A metric whose `update` and `compute` are measured on the thread where burn calls them.
///
/// [`ProfiledTraining::metrics`](crate::ProfiledTraining::metrics) and its sibling methods wrap
/// metrics automatically. Wrap only metrics that are registered before `.profiler(…)` yourself. The
/// metric's name, values and errors do not change. *Cost* without an active profiler: one relaxed
/// load.
#[derive(Debug, Clone)]
pub struct ProfiledMetric<Me> {
    metric: Me,
    update: Action,
    compute: Action,
    /// Binds the profiler to the event thread on which burn calls the metric.
    binding: Binding,
}

impl<Me: Metric> ProfiledMetric<Me> {
    /// Creates a metric that measures `metric` as `[Metric]{its type}.update` and `.compute`.
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
