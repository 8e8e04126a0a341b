//! `.profiler(…)` for a strategy.

use std::sync::Arc;

use burn::train::{LearnerModel, TrainingStrategy};
use mlprof_core::{Error, IntoProfiler, ProfilerExt, resolve};

use super::ProfiledStrategy;
use crate::session::StageSettings;

/// Adds [`profiler`](Self::profiler) to burn's [`TrainingStrategy`] and, with the feature `rl`, to
/// the reinforcement learning strategy.
pub trait ProfileStrategyExt: Sized + sealed::Strategy {
    /// Profiles the training that uses this strategy, with `"simple"`, `"advanced"` or a custom
    /// profiler. `"none"` and `None` disable profiling. The same loop runs on the same devices. A
    /// custom strategy is measured as a whole, and its loaders separately. All settings and types
    /// are kept:
    ///
    /// ```no_run
    /// # use burn::train::{Learner, LearnerModel, SupervisedTraining, TrainLoader, ValidLoader};
    /// # use burn::train::{CustomLearningStrategy, TrainingStrategy};
    /// use mlprof_burn::prelude::*;
    ///
    /// # fn train<M: LearnerModel>(
    /// #     learner: Learner<M>,
    /// #     train: TrainLoader<M>,
    /// #     valid: ValidLoader<M>,
    /// #     my_strategy: CustomLearningStrategy<M>,
    /// # ) -> Result<(), mlprof_burn::Error> {
    /// let strategy = TrainingStrategy::Custom(my_strategy).profiler("simple")?;
    /// SupervisedTraining::new("/tmp/run", train, valid)
    ///     .with_training_strategy(strategy)
    ///     .launch(learner); // prints FIT Profiler Report
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Metrics and the renderer have no rows of their own unless the program wraps them.
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] for a name that is not in [`mlprof_core::PROFILER_NAMES`].
    fn profiler(self, profiler: impl IntoProfiler) -> Result<Self, Error> {
        self.profiler_with(profiler, StageSettings::new())
    }

    /// Profiles as [`profiler`](Self::profiler) does, with additional settings: the effect of
    /// Ctrl-C and the report directory.
    ///
    /// ```no_run
    /// # use burn::train::{LearnerModel, TrainingStrategy};
    /// use mlprof_burn::prelude::*;
    ///
    /// # fn profiled<M: LearnerModel>(
    /// #     strategy: TrainingStrategy<M>,
    /// # ) -> Result<TrainingStrategy<M>, mlprof_burn::Error> {
    /// let settings = StageSettings::new().on_interrupt(Interrupt::Return).log_dir("/tmp/run");
    /// strategy.profiler_with("simple", settings)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] for a name that is not in [`mlprof_core::PROFILER_NAMES`].
    fn profiler_with(
        self,
        profiler: impl IntoProfiler,
        settings: StageSettings,
    ) -> Result<Self, Error>;
}

impl<M: LearnerModel> ProfileStrategyExt for TrainingStrategy<M> {
    fn profiler_with(
        self,
        profiler: impl IntoProfiler,
        settings: StageSettings,
    ) -> Result<Self, Error> {
        let profiler = resolve(profiler.into_profiler()?);
        if !profiler.is_enabled() {
            return Ok(self);
        }
        let strategy = ProfiledStrategy::with_session(Some(self), profiler, settings);
        Ok(Self::Custom(Arc::new(strategy)))
    }
}

/// Prevents other crates from implementing the extension trait.
pub(crate) mod sealed {
    use burn::train::{LearnerModel, TrainingStrategy};

    pub trait Strategy {}
    impl<M: LearnerModel> Strategy for TrainingStrategy<M> {}
}
