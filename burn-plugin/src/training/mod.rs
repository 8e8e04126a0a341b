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

/// A [`SupervisedTraining`] with a profiler: the same settings, the same
/// [`launch`](Self::launch), the same result.
#[must_use = "a training does nothing until it is launched"]
pub struct ProfiledTraining<M: LearnerModel> {
    training: SupervisedTraining<M>,
    /// The chosen profiler, or the error that `launch` returns.
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
    /// Creates a training as [`SupervisedTraining::new`] does, without a profiler until
    /// [`profiler`](Self::profiler) is called. All settings may come before that call, a training
    /// strategy among them.
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

    /// Profiles this training with another profiler than before: `"simple"`, `"advanced"`, a
    /// profiler of your own, or none (`"none"`, `None`). All settings are kept. A profiler that
    /// cannot be chosen is an error of [`launch`](Self::launch).
    pub fn profiler(mut self, profiler: impl IntoProfiler) -> Self {
        self.profiler = profiler.into_profiler();
        self
    }

    /// Trains, and delivers the profiler's report at the end, however the training ends: after
    /// its last epoch, early, interrupted, by an error of a data loader, or by a panic, which goes
    /// on after the report. While it runs, the profiler is the
    /// [active](mlprof_core::activate) one.
    ///
    /// Ctrl-C does what [`on_interrupt`](Self::on_interrupt) says.
    ///
    /// Weights, metrics and checkpoints are those that burn's own loop gives.
    ///
    /// # Errors
    ///
    /// [`Error`] for a profiler that cannot be chosen, such as a name that is not one of
    /// [`mlprof_core::PROFILER_NAMES`]. Nothing has run then.
    pub fn launch(self, learner: Learner<M>) -> Result<LearningResult<M>, Error> {
        let profiler = self.profiler?;
        let mut run = RunContext::from_environment();
        run.log_dir = self.log_dir;
        run.seed = self.seed;
        // Outlives the session: a report must not be cut short by the signal that asked for it.
        let stop = StopSignal::new(self.interrupt).with_interrupter(self.training.interrupter());
        let session = begin_session(profiler, Stage::Fit, &run, self.interrupt);
        // The environment may have another one measure.
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

    /// What the first Ctrl-C (or SIGTERM, or SIGHUP) does. By default it ends the process, as without
    /// a profiler, after the report. With [`Interrupt::Return`] it ends the training after the
    /// current batch, as an [`Interrupter`] would, with [`INTERRUPTED`](crate::INTERRUPTED) as its
    /// reason, and the program goes on; a second one then ends the process at once. See
    /// [`mlprof_core::interrupt`].
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Whether the process listens to `mlprof ps`, `mlprof top` and `mlprof record` from here on, to its end, as with
    /// `MLPROF_LIVE=1` in its environment. `false`, the default, leaves that to the environment, and `MLPROF_LIVE=0`
    /// forbids it. What is in the way is said on standard error, and the training goes on.
    ///
    /// *Cost*: some nanoseconds per action, and a lock that nobody else holds per step.
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

    /// Whether to measure, as `[EventProcessor].process_train` and `.process_valid`, all that the
    /// metrics' thread does with each event: reading tensors, metrics, logs and the renderer.
    ///
    /// By default it is not: metrics that are registered after `.profiler(…)`, and the renderer, are
    /// measured directly, at no cost worth mentioning. The whole can be seen only from one more
    /// thread that hands each event on and waits.
    ///
    /// *Cost*: some context switches per batch, which no short step hides on a machine whose cores
    /// are all busy. Their time is not in the loop's rows, but the run as a whole gets longer.
    pub fn measure_event_thread(mut self, is_measured: bool) -> Self {
        self.measures_event_thread = is_measured;
        self
    }

    /// Where reports go when the profiler has a file name but no directory of its own. burn keeps
    /// the training's directory to itself, so it has to be said again.
    pub fn log_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(directory.into());
        self
    }

    /// What the program has seeded its random numbers with
    /// ([`Device::seed`](burn::tensor::Device::seed), a loader's `shuffle`), for the record of the
    /// [`NumericsProfiler`](mlprof_core::NumericsProfiler): burn cannot be asked. Seeds nothing.
    pub fn seeded_with(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// As [`SupervisedTraining::with_training_strategy`]. Loops on one device, on several and
    /// distributed ones are measured in all their parts. A strategy of your own runs as it is,
    /// with its loaders measured, and metrics and renderer on their own thread.
    pub fn with_training_strategy(mut self, strategy: TrainingStrategy<M>) -> Self {
        self.strategy = Some(strategy);
        self
    }

    /// As [`SupervisedTraining::gradient_checkpointing`].
    pub fn gradient_checkpointing(mut self) -> Self {
        self.gradient_checkpointing = true;
        self
    }

    /// As [`SupervisedTraining::with_metric_logger`]. Its time is part of
    /// `[EventProcessor].process_…` only as far as burn waits for it.
    pub fn with_metric_logger<ML: MetricLogger + 'static>(self, logger: ML) -> Self {
        self.map(|training| training.with_metric_logger(logger))
    }

    /// As [`SupervisedTraining::with_progress_logger`], measured as `[ProgressLogger].progress`.
    pub fn with_progress_logger<PL: TrainingProgressLogger + 'static>(self, logger: PL) -> Self {
        self.map(|training| training.with_progress_logger(ProfiledProgressLogger::new(logger)))
    }

    /// As [`SupervisedTraining::with_checkpointing_strategy`].
    pub fn with_checkpointing_strategy<CS: CheckpointingStrategy + 'static>(
        self,
        strategy: CS,
    ) -> Self {
        self.map(|training| training.with_checkpointing_strategy(strategy))
    }

    /// As [`SupervisedTraining::renderer`], measured by a [`ProfiledRenderer`].
    pub fn renderer(self, renderer: Box<dyn MetricsRenderer>) -> Self {
        self.map(|training| training.renderer(Box::new(ProfiledRenderer::new(renderer))))
    }

    /// As [`SupervisedTraining::metrics`], each measured as a [`ProfiledMetric`].
    pub fn metrics<Me: MetricTuple<M>>(self, metrics: Me) -> Self {
        metrics.register(self)
    }

    /// As [`SupervisedTraining::metrics_text`], each measured as a [`ProfiledMetric`].
    pub fn metrics_text<Me: TextMetricTuple<M>>(self, metrics: Me) -> Self {
        metrics.register(self)
    }

    /// As [`SupervisedTraining::metric_train`], measured as a [`ProfiledMetric`].
    pub fn metric_train<Me: Metric + 'static>(self, metric: Me) -> Self
    where
        <M as TrainStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_train(ProfiledMetric::new(metric)))
    }

    /// As [`SupervisedTraining::metric_valid`], measured as a [`ProfiledMetric`].
    pub fn metric_valid<Me: Metric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_valid(ProfiledMetric::new(metric)))
    }

    /// As [`SupervisedTraining::metric_train_numeric`], measured as a [`ProfiledMetric`].
    pub fn metric_train_numeric<Me: Metric + Numeric + 'static>(self, metric: Me) -> Self
    where
        <M as TrainStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_train_numeric(ProfiledMetric::new(metric)))
    }

    /// As [`SupervisedTraining::metric_valid_numeric`], measured as a [`ProfiledMetric`].
    pub fn metric_valid_numeric<Me: Metric + Numeric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|training| training.metric_valid_numeric(ProfiledMetric::new(metric)))
    }

    /// As [`SupervisedTraining::grads_accumulation`].
    ///
    /// # Panics
    ///
    /// If `accumulation` is zero.
    pub fn grads_accumulation(self, accumulation: usize) -> Self {
        self.map(|training| training.grads_accumulation(accumulation))
    }

    /// As [`SupervisedTraining::num_epochs`].
    pub fn num_epochs(self, num_epochs: usize) -> Self {
        self.map(|training| training.num_epochs(num_epochs))
    }

    /// As [`SupervisedTraining::checkpoint`].
    pub fn checkpoint(self, checkpoint: usize) -> Self {
        self.map(|training| training.checkpoint(checkpoint))
    }

    /// As [`SupervisedTraining::interrupter`].
    pub fn interrupter(&self) -> Interrupter {
        self.training.interrupter()
    }

    /// As [`SupervisedTraining::with_interrupter`].
    pub fn with_interrupter(self, interrupter: Interrupter) -> Self {
        self.map(|training| training.with_interrupter(interrupter))
    }

    /// As [`SupervisedTraining::early_stopping`].
    pub fn early_stopping<Strategy>(self, strategy: Strategy) -> Self
    where
        Strategy: EarlyStoppingStrategy + Clone + Send + Sync + 'static,
    {
        self.map(|training| training.early_stopping(strategy))
    }

    /// As [`SupervisedTraining::with_application_logger`].
    pub fn with_application_logger(
        self,
        logger: Option<Box<dyn ApplicationLoggerInstaller>>,
    ) -> Self {
        self.map(|training| training.with_application_logger(logger))
    }

    /// As [`SupervisedTraining::with_default_checkpointers`].
    pub fn with_default_checkpointers(self) -> Self {
        self.map(SupervisedTraining::with_default_checkpointers)
    }

    /// As [`SupervisedTraining::with_custom_checkpointers`].
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

    /// As [`SupervisedTraining::summary`].
    pub fn summary(self) -> Self {
        self.map(SupervisedTraining::summary)
    }

    /// As [`SupervisedTraining::label`].
    pub fn label(self, label: &str) -> Self {
        self.map(|training| training.label(label))
    }
}

/// The settings that were kept back, given to burn's own loop.
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
