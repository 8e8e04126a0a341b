//! `.profiler(…)` for a training.

use burn::train::{LearnerModel, SupervisedTraining};
use mlprof_core::IntoProfiler;

use super::ProfiledTraining;

/// Adds [`profiler`](Self::profiler) to burn's [`SupervisedTraining`].
pub trait ProfileTrainingExt<M: LearnerModel>: Sized + sealed::Training {
    /// Profiles this training: with `"simple"`, `"advanced"`, a profiler of your own, or not at
    /// all (`"none"`, `None`).
    ///
    /// **A training strategy must be set after this call**
    /// ([`with_training_strategy`](ProfiledTraining::with_training_strategy)). burn's type keeps a
    /// strategy in a private field that only its `launch` reads, so one that was set before cannot
    /// be seen and does not run: burn's loop on the model's device runs instead. The report's
    /// header names the loop that ran. Two other ways keep a strategy wherever it is set: a
    /// training that begins as [`ProfiledTraining::new`], and
    /// [`strategy.profiler("simple")?`][strategy]. The latter also keeps burn's type, for a
    /// function that returns a [`SupervisedTraining`].
    ///
    /// All other settings may come before or after this call. Metrics and renderers that come
    /// after have rows of their own.
    ///
    /// [strategy]: crate::ProfileStrategyExt::profiler
    ///
    /// Without a profiler, burn's own loop runs, untouched, with all settings.
    ///
    /// A profiler that cannot be chosen is an error of [`launch`](ProfiledTraining::launch).
    fn profiler(self, profiler: impl IntoProfiler) -> ProfiledTraining<M>;
}

impl<M: LearnerModel> ProfileTrainingExt<M> for SupervisedTraining<M> {
    fn profiler(self, profiler: impl IntoProfiler) -> ProfiledTraining<M> {
        ProfiledTraining::of(self, profiler.into_profiler())
    }
}

/// Keeps other crates from implementing the extension trait.
mod sealed {
    use burn::train::{LearnerModel, SupervisedTraining};

    pub trait Training {}
    impl<M: LearnerModel> Training for SupervisedTraining<M> {}
}
