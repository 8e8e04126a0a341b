//! `.profiler(…)` for a training.

use burn::train::{LearnerModel, SupervisedTraining};
use mlprof_core::IntoProfiler;

use super::ProfiledTraining;

/// Adds [`profiler`](Self::profiler) to burn's [`SupervisedTraining`].
pub trait ProfileTrainingExt<M: LearnerModel>: Sized + sealed::Training {
    /// Profiles this training with `"simple"`, `"advanced"` or a custom profiler. `"none"` and
    /// `None` disable profiling.
    ///
    /// **Set a training strategy after this call**
    /// ([`with_training_strategy`](ProfiledTraining::with_training_strategy)). burn keeps the
    /// strategy in a private field that only its `launch` reads. A strategy that was set before is
    /// therefore invisible and does not run. Instead, burn's loop runs on the model's device. The
    /// report's header names the loop that ran.
    ///
    /// Two alternatives keep a strategy regardless of the order: [`ProfiledTraining::new`] and
    /// [`strategy.profiler("simple")?`][strategy]. The latter also keeps burn's type, for a
    /// function that returns a [`SupervisedTraining`].
    ///
    /// All other settings may come before or after this call. Metrics and renderers that are set
    /// after it have rows of their own.
    ///
    /// [strategy]: crate::ProfileStrategyExt::profiler
    ///
    /// Without a profiler, burn's own loop runs unchanged with all settings.
    ///
    /// [`launch`](ProfiledTraining::launch) returns an error for an invalid profiler.
    fn profiler(self, profiler: impl IntoProfiler) -> ProfiledTraining<M>;
}

impl<M: LearnerModel> ProfileTrainingExt<M> for SupervisedTraining<M> {
    fn profiler(self, profiler: impl IntoProfiler) -> ProfiledTraining<M> {
        ProfiledTraining::of(self, profiler.into_profiler())
    }
}

/// Prevents other crates from implementing the extension trait.
mod sealed {
    use burn::train::{LearnerModel, SupervisedTraining};

    pub trait Training {}
    impl<M: LearnerModel> Training for SupervisedTraining<M> {}
}
