//! `.profiler(…)` for a training.

use std::sync::Arc;

use burn::train::{LearnerModel, SupervisedTraining, TrainingStrategy};
use mlprof_core::{IntoProfiler, ProfilerExt, UnknownProfiler};

use super::ProfiledTraining;
use crate::session::StageSettings;
use crate::strategy::ProfiledStrategy;

/// Adds [`profiler`](Self::profiler) to burn's [`SupervisedTraining`].
pub trait ProfileTraining<M: LearnerModel>: Sized {
    /// Profiles this training: with `"simple"`, `"advanced"`, a profiler of your own, or not at
    /// all (`"none"`, `None`).
    ///
    /// **A training strategy must be set after this call**
    /// ([`with_training_strategy`](ProfiledTraining::with_training_strategy)). burn's type keeps a
    /// strategy in a private field that only its `launch` reads, so one that was set before cannot
    /// be seen and does not run: burn's loop on the model's device runs instead. The report's
    /// header names the loop that ran. Two other ways keep a strategy wherever it is set: a
    /// training that begins as [`ProfiledTraining::new`], and
    /// [`strategy.profiled("simple")`][profiled].
    ///
    /// All other settings may come before or after this call. Metrics and renderers that come
    /// after have rows of their own.
    ///
    /// [profiled]: crate::ProfileStrategy::profiled
    ///
    /// Without a profiler, burn's own loop runs, untouched, with all settings.
    ///
    /// # Errors
    ///
    /// [`UnknownProfiler`] for a name that is not one of [`mlprof_core::PROFILER_NAMES`].
    fn profiler(self, profiler: impl IntoProfiler) -> Result<ProfiledTraining<M>, UnknownProfiler>;

    /// Profiles this training and leaves its type as it is: for a function that returns burn's
    /// [`SupervisedTraining`], and for a `main` that returns `()` and knows the name.
    ///
    /// ```no_run
    /// # use burn::train::{Learner, LearnerModel, SupervisedTraining, TrainLoader, ValidLoader};
    /// use mlprof_burn::prelude::*;
    ///
    /// # fn train<M: LearnerModel>(learner: Learner<M>, train: TrainLoader<M>, valid: ValidLoader<M>) {
    /// let training: SupervisedTraining<M> =
    ///     SupervisedTraining::new("/tmp/run", train, valid).num_epochs(3).profiled("simple");
    /// training.launch(learner); // prints FIT Profiler Report
    /// # }
    /// ```
    ///
    /// What is measured is a loop on the model's device. It takes the place of the training's
    /// strategy: one that is set before is lost, and one that is set after takes its place again,
    /// which is said on standard error. Who has a strategy profiles it instead:
    /// [`strategy.profiled("simple")`](crate::ProfileStrategy::profiled). Metrics and the renderer
    /// have no rows of their own, unless they are wrapped by hand. Whoever needs more uses
    /// [`profiler`](Self::profiler).
    ///
    /// # Panics
    ///
    /// For a name that is not one of [`mlprof_core::PROFILER_NAMES`], before anything is
    /// trained. A name that a user gives belongs to [`profiler`](Self::profiler), which returns an
    /// error.
    #[must_use]
    fn profiled(self, profiler: impl IntoProfiler) -> Self;
}

impl<M: LearnerModel> ProfileTraining<M> for SupervisedTraining<M> {
    fn profiler(self, profiler: impl IntoProfiler) -> Result<ProfiledTraining<M>, UnknownProfiler> {
        Ok(ProfiledTraining::of(self, profiler.into_profiler()?))
    }

    #[track_caller]
    fn profiled(self, profiler: impl IntoProfiler) -> Self {
        let profiler = match profiler.into_profiler() {
            Ok(profiler) => profiler,
            Err(error) => panic!("{error}"),
        };
        if !profiler.is_enabled() {
            return self;
        }
        let strategy = ProfiledStrategy::with_session(None, profiler, StageSettings::new());
        self.with_training_strategy(TrainingStrategy::Custom(Arc::new(strategy)))
    }
}
