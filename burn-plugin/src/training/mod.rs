//! A training with a profiler.

mod metrics;
mod profile;

pub use metrics::{MetricTuple, TextMetricTuple};
pub use profile::ProfileTrainingExt;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::optim::OptimizerRecord;
use burn::optim::lr_scheduler::LrSchedulerRecord;
use burn::store::ModuleRecord;
use burn::train::checkpoint::{Checkpointer, CheckpointingStrategy};
use burn::train::logger::{MetricLogger, TrainingProgressLogger};
use burn::train::metric::{Adaptor, Metric, Numeric};
use burn::train::renderer::MetricsRenderer;
use burn::train::{
    ApplicationLoggerInstaller, EarlyStoppingStrategy, InferenceStep, Interrupter, Learner,
    LearnerModel, LearningResult, SupervisedTraining, TrainStep, TrainingStrategy,
};
use mlprof_core::{
    Error, Interrupt, IntoProfiler, PassThroughProfiler, Profiler, ProfilerExt, RunContext, Stage,
};

use crate::metric::ProfiledMetric;
use crate::progress::ProfiledProgressLogger;
use crate::renderer::ProfiledRenderer;
use crate::session::begin_session;
use crate::stop::StopSignal;
use crate::strategy::{Loop, ProfiledStrategy};

/// A [`SupervisedTraining`] with a profiler. Settings, [`launch`](Self::launch) and result are the
/// same.
#[must_use = "a training does nothing until it is launched"]
pub struct ProfiledTraining<M: LearnerModel> {
    training: SupervisedTraining<M>,
    /// The selected profiler, or the error that `launch` returns.
    profiler: Result<Arc<dyn Profiler>, Error>,
    strategy: Option<TrainingStrategy<M>>,
    gradient_checkpointing: bool,
    log_dir: Option<PathBuf>,
    seed: Option<u64>,
    interrupt: Interrupt,
    measures_event_thread: bool,
}
mlprof_core::debug_as_name!([M: LearnerModel] ProfiledTraining<M>);

impl<M: LearnerModel> ProfiledTraining<M> {
    /// Creates a training as [`SupervisedTraining::new`] does. It has no profiler until
    /// [`profiler`](Self::profiler) is called. All settings, including a training strategy, may
    /// come before that call.
    ///
    /// ```no_run
    /// # use burn::train::{Learner, LearnerModel, TrainLoader, TrainingStrategy, ValidLoader};
    /// use mlprof_burn::{ProfiledTraining, prelude::*};
    ///
    /// # fn train<M: LearnerModel>(
    /// #     learner: Learner<M>,
    /// #     train: TrainLoader<M>,
    /// #     valid: ValidLoader<M>,
    /// #     strategy: TrainingStrategy<M>,
    /// # ) -> Result<(), mlprof_burn::Error> {
    /// ProfiledTraining::new("/tmp/run", train, valid)
    ///     .with_training_strategy(strategy)
    ///     .profiler("simple")
    ///     .launch(learner)?; // runs the strategy, and prints FIT Profiler Report
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(
        directory: impl AsRef<Path>,
        train: Arc<dyn DataLoader<<M as TrainStep>::Input>>,
        valid: Arc<dyn DataLoader<<M as InferenceStep>::Input>>,
    ) -> Self {
        let none = Arc::new(PassThroughProfiler::new());
        Self::of(SupervisedTraining::new(directory, train, valid), Ok(none))
    }

    fn of(training: SupervisedTraining<M>, profiler: Result<Arc<dyn Profiler>, Error>) -> Self {
        Self {
            training,
            profiler,
            strategy: None,
            gradient_checkpointing: false,
            log_dir: None,
            seed: None,
            interrupt: Interrupt::Terminate,
            measures_event_thread: false,
        }
    }

    /// Replaces the profiler of this training with `"simple"`, `"advanced"` or a custom profiler.
    /// `"none"` and `None` disable profiling. All settings are kept. [`launch`](Self::launch)
    /// returns an error for an invalid profiler.
    pub fn profiler(mut self, profiler: impl IntoProfiler) -> Self {
        self.profiler = profiler.into_profiler();
        self
    }

    /// Trains the model and delivers the profiler's report at the end. The report is also delivered
    /// if the training ends early, is interrupted, or fails with a data loader error. A panic
    /// continues after the report. While the training runs, its profiler is the
    /// [active](mlprof_core::activate) one.
    ///
    /// [`on_interrupt`](Self::on_interrupt) sets the effect of Ctrl-C.
    ///
    /// Weights, metrics and checkpoints are identical to those of burn's own loop.
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] for an invalid profiler, such as a name that is not in
    /// [`mlprof_core::PROFILER_NAMES`]. The training has not started then.
    pub fn launch(self, learner: Learner<M>) -> Result<LearningResult<M>, Error> {
        let profiler = self.profiler?;
        let mut run = RunContext::from_environment();
        run.log_dir = self.log_dir;
        run.seed = self.seed;
        // The signal handler outlives the session, so that the requesting signal does not truncate
        // the report.
        let stop = StopSignal::new(self.interrupt).with_interrupter(self.training.interrupter());
        let session = begin_session(profiler, Stage::Fit, &run, self.interrupt);
        // The environment may have replaced the profiler.
        let profiler = session.profiler().clone();
        if !profiler.is_enabled() {
            let _following = stop.follow();
            let training = with_settings(self.training, self.strategy, self.gradient_checkpointing);
            return Ok(training.launch(learner));
        }
        let which = Loop {
            strategy: self.strategy,
            gradient_checkpointing: self.gradient_checkpointing,
            measures_event_thread: self.measures_event_thread,
        };
        let strategy = ProfiledStrategy::new(which, profiler, stop);
        let strategy = TrainingStrategy::Custom(Arc::new(strategy));
        Ok(self.training.with_training_strategy(strategy).launch(learner))
    }

    /// Sets the effect of the first Ctrl-C, SIGTERM or SIGHUP. By default it ends the process after
    /// the report. With [`Interrupt::Return`] it ends the training after the current batch, as an
    /// [`Interrupter`] would. The reason is then [`INTERRUPTED`](crate::INTERRUPTED), and the
    /// program continues. A second signal ends the process immediately. See
    /// [`mlprof_core::interrupt`].
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Accepts connections from `mlprof ps`, `mlprof top` and `mlprof record` until the process
    /// ends, as `MLPROF_LIVE=1` does. With `false`, the default, the environment decides.
    /// `MLPROF_LIVE=0` always disables it. If it cannot be enabled, the reason is printed to
    /// standard error and the training continues.
    ///
    /// *Cost*: a few nanoseconds per action, and one uncontended lock per step.
    pub fn live(self, listens: bool) -> Self {
        if listens {
            mlprof_core::watcher::listen();
        }
        self
    }

    fn map(mut self, change: impl FnOnce(SupervisedTraining<M>) -> SupervisedTraining<M>) -> Self {
        self.training = change(self.training);
        self
    }

    /// Enables measuring of all work on the event thread as `[EventProcessor].process_train` and
    /// `.process_valid`: reading tensors, metrics, logs and the renderer.
    ///
    /// This is disabled by default. Metrics registered after `.profiler(…)` and the renderer are
    /// measured directly, at negligible cost. Measuring the total requires an additional thread,
    /// which forwards each event and waits.
    ///
    /// *Cost*: several context switches per batch. They are noticeable for short steps on a machine
    /// with fully loaded cores. The time is not in the loop's rows, but the whole run takes longer.
    pub fn measure_event_thread(mut self, is_measured: bool) -> Self {
        self.measures_event_thread = is_measured;
        self
    }

    /// Sets the directory for reports whose profiler has a file name but no directory. burn does
    /// not expose the training's directory, so it must be set again here.
    pub fn log_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(directory.into());
        self
    }

    /// Records the seed of the program's random numbers
    /// ([`Device::seed`](burn::tensor::Device::seed), a loader's `shuffle`) for the
    /// [`NumericsProfiler`](mlprof_core::NumericsProfiler). burn does not expose the seed. This
    /// method does not set the seed.
    pub fn seeded_with(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the strategy as [`SupervisedTraining::with_training_strategy`] does. burn's loops on
    /// one or several devices and its distributed loops are measured in all their parts. A custom
    /// strategy runs unchanged; its loaders are measured, and so are metrics and renderer on the
    /// event thread.
    pub fn with_training_strategy(mut self, strategy: TrainingStrategy<M>) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// Enables gradient checkpointing as [`SupervisedTraining::gradient_checkpointing`] does.
    pub fn gradient_checkpointing(mut self) -> Self {
        self.gradient_checkpointing = true;
        self
    }

    /// Sets the logger as [`SupervisedTraining::with_metric_logger`] does. The time of an
    /// asynchronous logger is part of `[EventProcessor].process_…` only while burn waits for it.
    pub fn with_metric_logger<ML: MetricLogger + 'static>(self, logger: ML) -> Self {
        self.map(|training| training.with_metric_logger(logger))
    }

    /// Sets the logger as [`SupervisedTraining::with_progress_logger`] does, measured as
    /// `[ProgressLogger].progress`.
    pub fn with_progress_logger<PL: TrainingProgressLogger + 'static>(self, logger: PL) -> Self {
        self.map(|training| training.with_progress_logger(ProfiledProgressLogger::new(logger)))
    }

    /// Forwards to [`SupervisedTraining::with_checkpointing_strategy`].
    pub fn with_checkpointing_strategy<CS: CheckpointingStrategy + 'static>(
        self,
        strategy: CS,
    ) -> Self {
        self.map(|training| training.with_checkpointing_strategy(strategy))
    }

    /// Sets the renderer as [`SupervisedTraining::renderer`] does, wrapped in a
    /// [`ProfiledRenderer`].
    pub fn renderer(self, renderer: Box<dyn MetricsRenderer>) -> Self {
        self.map(|training| training.renderer(Box::new(ProfiledRenderer::new(renderer))))
    }

    /// Registers metrics as [`SupervisedTraining::metrics`] does, each wrapped in a
    /// [`ProfiledMetric`].
    pub fn metrics<Me: MetricTuple<M>>(self, metrics: Me) -> Self {
        metrics.register(self)
    }

    /// Registers metrics as [`SupervisedTraining::metrics_text`] does, each wrapped in a
    /// [`ProfiledMetric`].
    pub fn metrics_text<Me: TextMetricTuple<M>>(self, metrics: Me) -> Self {
        metrics.register(self)
    }

    /// Registers a metric as [`SupervisedTraining::metric_train`] does, wrapped in a
    /// [`ProfiledMetric`].
    pub fn metric_train<Me: Metric + 'static>(self, metric: Me) -> Self
    where
        <M as TrainStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_train(ProfiledMetric::new(metric)))
    }

    /// Registers a metric as [`SupervisedTraining::metric_valid`] does, wrapped in a
    /// [`ProfiledMetric`].
    pub fn metric_valid<Me: Metric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_valid(ProfiledMetric::new(metric)))
    }

    /// Registers a metric as [`SupervisedTraining::metric_train_numeric`] does, wrapped in a
    /// [`ProfiledMetric`].
    pub fn metric_train_numeric<Me: Metric + Numeric + 'static>(self, metric: Me) -> Self
    where
        <M as TrainStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_train_numeric(ProfiledMetric::new(metric)))
    }

    /// Registers a metric as [`SupervisedTraining::metric_valid_numeric`] does, wrapped in a
    /// [`ProfiledMetric`].
    pub fn metric_valid_numeric<Me: Metric + Numeric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_valid_numeric(ProfiledMetric::new(metric)))
    }

    /// Sets gradient accumulation as [`SupervisedTraining::grads_accumulation`] does.
    ///
    /// # Panics
    ///
    /// Panics if `accumulation` is zero.
    pub fn grads_accumulation(self, accumulation: usize) -> Self {
        self.map(|training| training.grads_accumulation(accumulation))
    }

    /// Sets the number of epochs as [`SupervisedTraining::num_epochs`] does.
    pub fn num_epochs(self, num_epochs: usize) -> Self {
        self.map(|training| training.num_epochs(num_epochs))
    }

    /// Sets the checkpoint to resume from, as [`SupervisedTraining::checkpoint`] does.
    pub fn checkpoint(self, checkpoint: usize) -> Self {
        self.map(|training| training.checkpoint(checkpoint))
    }

    /// Returns the interrupter as [`SupervisedTraining::interrupter`] does.
    pub fn interrupter(&self) -> Interrupter {
        self.training.interrupter()
    }

    /// Sets the interrupter as [`SupervisedTraining::with_interrupter`] does.
    pub fn with_interrupter(self, interrupter: Interrupter) -> Self {
        self.map(|training| training.with_interrupter(interrupter))
    }

    /// Enables early stopping as [`SupervisedTraining::early_stopping`] does.
    pub fn early_stopping<Strategy>(self, strategy: Strategy) -> Self
    where
        Strategy: EarlyStoppingStrategy + Clone + Send + Sync + 'static,
    {
        self.map(|training| training.early_stopping(strategy))
    }

    /// Forwards to [`SupervisedTraining::with_application_logger`].
    pub fn with_application_logger(
        self,
        logger: Option<Box<dyn ApplicationLoggerInstaller>>,
    ) -> Self {
        self.map(|training| training.with_application_logger(logger))
    }

    /// Forwards to [`SupervisedTraining::with_default_checkpointers`].
    pub fn with_default_checkpointers(self) -> Self {
        self.map(SupervisedTraining::with_default_checkpointers)
    }

    /// Forwards to [`SupervisedTraining::with_custom_checkpointers`].
    pub fn with_custom_checkpointers<CM, CO, CL>(
        self,
        module_checkpointer: CM,
        optimizer_checkpointer: CO,
        lr_checkpointer: CL,
    ) -> Self
    where
        CM: Checkpointer<ModuleRecord> + 'static,
        CO: Checkpointer<OptimizerRecord> + 'static,
        CL: Checkpointer<LrSchedulerRecord> + 'static,
    {
        self.map(|training| {
            training.with_custom_checkpointers(
                module_checkpointer,
                optimizer_checkpointer,
                lr_checkpointer,
            )
        })
    }

    /// Forwards to [`SupervisedTraining::summary`].
    pub fn summary(self) -> Self {
        self.map(SupervisedTraining::summary)
    }

    /// Forwards to [`SupervisedTraining::label`].
    pub fn label(self, label: &str) -> Self {
        self.map(|training| training.label(label))
    }
}

/// Applies the stored settings to burn's own training.
fn with_settings<M: LearnerModel>(
    mut training: SupervisedTraining<M>,
    strategy: Option<TrainingStrategy<M>>,
    gradient_checkpointing: bool,
) -> SupervisedTraining<M> {
    if let Some(strategy) = strategy {
        training = training.with_training_strategy(strategy);
    }
    if gradient_checkpointing {
        training = training.gradient_checkpointing();
    }
    training
}
