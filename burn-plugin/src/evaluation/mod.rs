//! `.profiler(…)` for an evaluation.

mod metrics;

pub use metrics::{TestMetricTuple, TestTextMetricTuple};

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::module::Module;
use burn::train::logger::EvaluationProgressLogger;
use burn::train::metric::{Adaptor, Metric, Numeric};
use burn::train::renderer::MetricsRenderer;
use burn::train::{
    ApplicationLoggerInstaller, EvaluationResult, Evaluator, EvaluatorBuilder,
    EvaluatorComponentTypesMarker, InferenceStep,
};
use mlprof_core::{
    Action, Error, Interrupt, IntoProfiler, Profiler, ProfilerExt, RunContext, Stage,
};

use crate::actions;
use crate::loader::LoaderHooks;
use crate::metric::ProfiledMetric;
use crate::progress::ProfiledProgressLogger;
use crate::renderer::ProfiledRenderer;
use crate::session::{OpenAction, begin_session};
use crate::stop::StopSignal;
use crate::test_model::TestModel;

/// burn's builder with a profiled model.
type TestBuilder<M> = EvaluatorBuilder<EvaluatorComponentTypesMarker<TestModel<M>>>;

/// The traits that burn requires of a model under evaluation.
pub trait ModelUnderTest: Module + InferenceStep + Display + 'static {}

impl<M: Module + InferenceStep + Display + 'static> ModelUnderTest for M {}

/// Adds [`profiler`](Self::profiler) to burn's [`EvaluatorBuilder`].
pub trait ProfileEvaluationExt<M: ModelUnderTest>: Sized + sealed::Evaluation {
    /// Profiles this evaluation with `"simple"`, `"advanced"` or a custom profiler. `"none"` and
    /// `None` disable profiling.
    ///
    /// burn does not expose its evaluation loop, so only the parts around it are measured:
    ///
    /// - every test set's loader
    /// - the model's step
    /// - the time from one batch to the next, as `run_test_batch`; its self time is mainly the
    ///   passing of outputs to the metrics
    ///
    /// Metrics and renderers that are set *after* this call are measured on the event thread. Those
    /// set before are not measured, and neither is the reading of tensors for them.
    ///
    /// This method returns a different builder type. burn calls metrics, renderer and logger on the
    /// event thread, so they cannot observe when a step begins or ends. The loop's thread calls
    /// only the loader and the model, and the model's type is part of the builder's type.
    ///
    /// A function that must return burn's [`EvaluatorBuilder`] or [`Evaluator`] can stay unchanged.
    /// Profile the returned evaluator instead:
    /// [`evaluator.profiler("simple")?.eval(…)`](ProfileEvaluatorExt::profiler).
    ///
    /// An invalid profiler is reported as an error by [`build`](ProfiledEvaluatorBuilder::build).
    fn profiler(self, profiler: impl IntoProfiler) -> ProfiledEvaluatorBuilder<M>;
}

/// Adds [`profiler`](Self::profiler) to burn's [`Evaluator`], for evaluators that were built
/// without a profiler.
pub trait ProfileEvaluatorExt<M: ModelUnderTest>: Sized + sealed::Evaluation {
    /// Profiles this evaluation as [`ProfileEvaluationExt::profiler`] does, independently of how
    /// the evaluator was built:
    ///
    /// ```no_run
    /// # use burn::train::{Evaluator, EvaluatorBuilder, EvaluatorComponentTypesMarker as Marker};
    /// # use burn::train::InferenceStep;
    /// # use mlprof_burn::{ModelUnderTest, prelude::*};
    /// # use std::sync::Arc;
    /// # use burn::data::dataloader::DataLoader;
    /// fn evaluator<M: ModelUnderTest>(model: M) -> Evaluator<Marker<M>> {
    ///     EvaluatorBuilder::new("/tmp/run").build(model) // burn's own builder and types
    /// }
    ///
    /// # fn test<M: ModelUnderTest>(
    /// #     model: M,
    /// #     loader: Arc<dyn DataLoader<<M as InferenceStep>::Input>>,
    /// #     is_verbose: bool,
    /// # ) -> Result<(), mlprof_burn::Error> {
    /// evaluator(model).profiler(is_verbose.then_some("simple"))?.eval("test", loader);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// burn already owns the model, so its step has no row `[InferenceStep]….test_step`. The step
    /// is part of `run_test_batch`, together with the passing of its output to the metrics. Metrics
    /// and the renderer have rows only if the program wraps them ([`ProfiledMetric`],
    /// [`ProfiledRenderer`]).
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] for a name that is not in [`mlprof_core::PROFILER_NAMES`].
    fn profiler(self, profiler: impl IntoProfiler) -> Result<ProfiledEvaluator<M>, Error>;
}

impl<M: ModelUnderTest> ProfileEvaluatorExt<M> for Evaluator<EvaluatorComponentTypesMarker<M>> {
    fn profiler(self, profiler: impl IntoProfiler) -> Result<ProfiledEvaluator<M>, Error> {
        Ok(ProfiledEvaluator {
            evaluator: Built::AsBurnDoes(self),
            profiler: profiler.into_profiler()?,
            log_dir: None,
            interrupt: Interrupt::Terminate,
        })
    }
}

impl<M: ModelUnderTest> ProfileEvaluationExt<M> for TestBuilder<M> {
    fn profiler(self, profiler: impl IntoProfiler) -> ProfiledEvaluatorBuilder<M> {
        let profiler = profiler.into_profiler();
        let interrupt = Interrupt::Terminate;
        ProfiledEvaluatorBuilder { builder: self, profiler, log_dir: None, interrupt }
    }
}

/// Prevents other crates from implementing the extension traits.
mod sealed {
    use super::{Evaluator, EvaluatorComponentTypesMarker, ModelUnderTest, TestBuilder};

    pub trait Evaluation {}
    impl<M: ModelUnderTest> Evaluation for TestBuilder<M> {}
    impl<M: ModelUnderTest> Evaluation for Evaluator<EvaluatorComponentTypesMarker<M>> {}
}

/// An [`EvaluatorBuilder`] with a profiler. Settings and results are the same.
#[must_use = "an evaluation does nothing until it is built and run"]
pub struct ProfiledEvaluatorBuilder<M: ModelUnderTest> {
    builder: TestBuilder<M>,
    /// The selected profiler, or the error that `build` returns.
    profiler: Result<Arc<dyn Profiler>, Error>,
    log_dir: Option<PathBuf>,
    interrupt: Interrupt,
}
mlprof_core::debug_as_name!([M: ModelUnderTest] ProfiledEvaluatorBuilder<M>);

impl<M: ModelUnderTest> ProfiledEvaluatorBuilder<M> {
    fn map(mut self, change: impl FnOnce(TestBuilder<M>) -> TestBuilder<M>) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Sets the directory for reports whose profiler has a file name but no directory.
    pub fn log_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(directory.into());
        self
    }

    /// Sets the effect of the first Ctrl-C, see
    /// [`ProfiledTraining::on_interrupt`](crate::ProfiledTraining::on_interrupt). burn offers no
    /// way to interrupt an evaluation from outside its builder. With [`Interrupt::Return`], the
    /// interruption is therefore returned as a loader error in the result's `error`.
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Registers metrics as [`EvaluatorBuilder::metrics`] does, each wrapped in a
    /// [`ProfiledMetric`].
    pub fn metrics<Me: TestMetricTuple<M>>(self, metrics: Me) -> Self {
        self.map(|builder| builder.metrics(metrics.measured()))
    }

    /// Registers metrics as [`EvaluatorBuilder::metrics_text`] does, each wrapped in a
    /// [`ProfiledMetric`].
    pub fn metrics_text<Me: TestTextMetricTuple<M>>(self, metrics: Me) -> Self {
        self.map(|builder| builder.metrics_text(metrics.measured()))
    }

    /// Registers a metric as [`EvaluatorBuilder::metric_numeric`] does, wrapped in a
    /// [`ProfiledMetric`].
    pub fn metric_numeric<Me: Metric + Numeric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|builder| builder.metric_numeric(ProfiledMetric::new(metric)))
    }

    /// Registers a metric as [`EvaluatorBuilder::metric`] does, wrapped in a [`ProfiledMetric`].
    pub fn metric<Me: Metric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|builder| builder.metric(ProfiledMetric::new(metric)))
    }

    /// Forwards to [`EvaluatorBuilder::with_application_logger`].
    pub fn with_application_logger(
        self,
        logger: Option<Box<dyn ApplicationLoggerInstaller>>,
    ) -> Self {
        self.map(|builder| builder.with_application_logger(logger))
    }

    /// Sets the renderer as [`EvaluatorBuilder::renderer`] does, wrapped in a [`ProfiledRenderer`].
    pub fn renderer(self, renderer: Box<dyn MetricsRenderer>) -> Self {
        self.map(|builder| builder.renderer(Box::new(ProfiledRenderer::new(renderer))))
    }

    /// Forwards to [`EvaluatorBuilder::summary`].
    pub fn summary(self) -> Self {
        self.map(EvaluatorBuilder::summary)
    }

    /// Sets the logger as [`EvaluatorBuilder::with_progress_logger`] does, measured as
    /// `[ProgressLogger].progress`.
    pub fn with_progress_logger<PL: EvaluationProgressLogger + 'static>(self, logger: PL) -> Self {
        self.map(|builder| builder.with_progress_logger(ProfiledProgressLogger::new(logger)))
    }

    /// Builds the evaluator as [`EvaluatorBuilder::build`] does.
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] for an invalid profiler, such as a name that is not in
    /// [`mlprof_core::PROFILER_NAMES`].
    pub fn build(self, model: M) -> Result<ProfiledEvaluator<M>, Error> {
        Ok(ProfiledEvaluator {
            profiler: self.profiler?,
            evaluator: Built::WithSteps(self.builder.build(TestModel::new(model))),
            log_dir: self.log_dir,
            interrupt: self.interrupt,
        })
    }
}

/// burn's evaluator, which does not expose its model.
enum Built<M: ModelUnderTest> {
    /// An evaluator with a profiled model.
    WithSteps(Evaluator<EvaluatorComponentTypesMarker<TestModel<M>>>),
    /// An evaluator with the user's model.
    AsBurnDoes(Evaluator<EvaluatorComponentTypesMarker<M>>),
}

/// An [`Evaluator`] with a profiler.
#[must_use = "an evaluation does nothing until it is run"]
pub struct ProfiledEvaluator<M: ModelUnderTest> {
    evaluator: Built<M>,
    profiler: Arc<dyn Profiler>,
    log_dir: Option<PathBuf>,
    interrupt: Interrupt,
}
mlprof_core::debug_as_name!([M: ModelUnderTest] ProfiledEvaluator<M>);

type TestLoader<M> = Arc<dyn DataLoader<<M as InferenceStep>::Input>>;

impl<M: ModelUnderTest> ProfiledEvaluator<M> {
    /// Sets the report directory as [`ProfiledEvaluatorBuilder::log_dir`] does.
    pub fn log_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(directory.into());
        self
    }

    /// Sets the effect of Ctrl-C as [`ProfiledEvaluatorBuilder::on_interrupt`] does.
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Evaluates as [`Evaluator::eval`] does and delivers the profiler's report at the end.
    pub fn eval<S: Display>(self, name: S, dataloader: TestLoader<M>) -> EvaluationResult {
        self.eval_all([(name, dataloader)])
    }

    /// Evaluates as [`Evaluator::eval_all`] does and delivers the profiler's report at the end,
    /// even if the evaluation fails.
    pub fn eval_all<S: Display>(
        self,
        splits: impl IntoIterator<Item = (S, TestLoader<M>)>,
    ) -> EvaluationResult {
        let mut run = RunContext::from_environment();
        run.log_dir = self.log_dir;
        // The signal handler outlives the session, so that the requesting signal does not truncate
        // the report.
        let stop = StopSignal::new(self.interrupt);
        let session = begin_session(self.profiler, Stage::Test, &run, self.interrupt);
        // The environment may have replaced the profiler.
        let profiler = session.profiler().clone();
        if !profiler.is_enabled() && self.interrupt == Interrupt::Terminate {
            return self.evaluator.eval_all(splits);
        }
        let all = Action::new(actions::RUN_TEST_EVALUATION);
        let _all = OpenAction::start(&profiler, all);
        let hooks = LoaderHooks {
            profiler,
            iter: Some(Action::new(actions::TEST_DATALOADER)),
            next: Action::new(actions::TEST_NEXT),
            batch: Some(Action::new(actions::RUN_TEST_BATCH)),
            stop: Some(stop),
            installs_ops: true,
        };
        let splits = splits.into_iter().map(|(name, loader)| (name, hooks.clone().wrap(loader)));
        self.evaluator.eval_all(splits)
    }
}

impl<M: ModelUnderTest> Built<M> {
    fn eval_all<S: Display>(
        self,
        splits: impl IntoIterator<Item = (S, TestLoader<M>)>,
    ) -> EvaluationResult {
        match self {
            Self::WithSteps(evaluator) => evaluator.eval_all(splits),
            Self::AsBurnDoes(evaluator) => evaluator.eval_all(splits),
        }
    }
}
