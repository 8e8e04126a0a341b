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

/// burn's builder, with a model that is measured.
type TestBuilder<M> = EvaluatorBuilder<EvaluatorComponentTypesMarker<TestModel<M>>>;

/// What burn asks of a model that it evaluates.
pub trait ModelUnderTest: Module + InferenceStep + Display + 'static {}

impl<M: Module + InferenceStep + Display + 'static> ModelUnderTest for M {}

/// Adds [`profiler`](Self::profiler) to burn's [`EvaluatorBuilder`].
pub trait ProfileEvaluationExt<M: ModelUnderTest>: Sized + sealed::Evaluation {
    /// Profiles this evaluation: with `"simple"`, `"advanced"`, a profiler of your own, or not at
    /// all (`"none"`, `None`).
    ///
    /// burn keeps its loop to itself, so what is measured is what can be seen around it: every
    /// test set's loader, the model's step, and, from one batch to the next, both together with
    /// handing the outcome to the metrics (the self time of `run_test_batch`). Metrics and
    /// renderers that are set *after* this call are measured on their own thread; those set before
    /// are not seen, nor is reading the tensors for them.
    ///
    /// The builder gets a type of its own, and it has to: a burn builder takes metrics, a renderer and a
    /// logger, which burn calls on another thread than the loop's, and the loop's thread calls nothing
    /// but the loader and the model, whose type is part of the builder's. So nothing that burn's own
    /// type can hold would see a step begin or end; a function that has to return burn's
    /// [`EvaluatorBuilder`] or [`Evaluator`] is left as it is, and what it returned is profiled:
    /// [`evaluator.profiler("simple")?.eval(…)`](ProfileEvaluatorExt::profiler).
    ///
    /// A profiler that cannot be chosen is an error of [`build`](ProfiledEvaluatorBuilder::build).
    fn profiler(self, profiler: impl IntoProfiler) -> ProfiledEvaluatorBuilder<M>;
}

/// Adds [`profiler`](Self::profiler) to burn's [`Evaluator`]: to one that was built without.
pub trait ProfileEvaluatorExt<M: ModelUnderTest>: Sized + sealed::Evaluation {
    /// Profiles this evaluation, as [`ProfileEvaluationExt::profiler`] does, and needs nothing of
    /// how it was built:
    ///
    /// ```no_run
    /// # use burn::train::{Evaluator, EvaluatorBuilder, EvaluatorComponentTypesMarker as Marker};
    /// # use burn::train::InferenceStep;
    /// # use mlprof_burn::{ModelUnderTest, prelude::*};
    /// # use std::sync::Arc;
    /// # use burn::data::dataloader::DataLoader;
    /// fn evaluator<M: ModelUnderTest>(model: M) -> Evaluator<Marker<M>> {
    ///     EvaluatorBuilder::new("/tmp/run").build(model) // burn's own, with burn's own types
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
    /// The model is in burn's hands already, so its step has no row `[InferenceStep]….test_step`: it is
    /// what `run_test_batch` is, together with handing the outcome to the metrics. Metrics and the
    /// renderer have rows only if they were wrapped by hand ([`ProfiledMetric`], [`ProfiledRenderer`]).
    ///
    /// # Errors
    ///
    /// [`Error`] for a name that is not one of [`mlprof_core::PROFILER_NAMES`].
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

/// Keeps other crates from implementing the extension traits.
mod sealed {
    use super::{Evaluator, EvaluatorComponentTypesMarker, ModelUnderTest, TestBuilder};

    pub trait Evaluation {}
    impl<M: ModelUnderTest> Evaluation for TestBuilder<M> {}
    impl<M: ModelUnderTest> Evaluation for Evaluator<EvaluatorComponentTypesMarker<M>> {}
}

/// An [`EvaluatorBuilder`] with a profiler: the same settings, the same result.
#[must_use = "an evaluation does nothing until it is built and run"]
pub struct ProfiledEvaluatorBuilder<M: ModelUnderTest> {
    builder: TestBuilder<M>,
    /// The chosen profiler, or the error that `build` returns.
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

    /// Where reports go when the profiler has a file name but no directory of its own.
    pub fn log_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(directory.into());
        self
    }

    /// What the first Ctrl-C does, see
    /// [`ProfiledTraining::on_interrupt`](crate::ProfiledTraining::on_interrupt). burn gives no way
    /// to interrupt an evaluation from outside its builder, so with [`Interrupt::Return`] it comes as
    /// an error of the loader, in the result's `error`.
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// As [`EvaluatorBuilder::metrics`], each measured as a [`ProfiledMetric`].
    pub fn metrics<Me: TestMetricTuple<M>>(self, metrics: Me) -> Self {
        self.map(|builder| builder.metrics(metrics.measured()))
    }

    /// As [`EvaluatorBuilder::metrics_text`], each measured as a [`ProfiledMetric`].
    pub fn metrics_text<Me: TestTextMetricTuple<M>>(self, metrics: Me) -> Self {
        self.map(|builder| builder.metrics_text(metrics.measured()))
    }

    /// As [`EvaluatorBuilder::metric_numeric`], measured as a [`ProfiledMetric`].
    pub fn metric_numeric<Me: Metric + Numeric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|builder| builder.metric_numeric(ProfiledMetric::new(metric)))
    }

    /// As [`EvaluatorBuilder::metric`], measured as a [`ProfiledMetric`].
    pub fn metric<Me: Metric + 'static>(self, metric: Me) -> Self
    where
        <M as InferenceStep>::Output: Adaptor<Me::Input>,
    {
        self.map(|builder| builder.metric(ProfiledMetric::new(metric)))
    }

    /// As [`EvaluatorBuilder::with_application_logger`].
    pub fn with_application_logger(
        self,
        logger: Option<Box<dyn ApplicationLoggerInstaller>>,
    ) -> Self {
        self.map(|builder| builder.with_application_logger(logger))
    }

    /// As [`EvaluatorBuilder::renderer`], measured by a [`ProfiledRenderer`].
    pub fn renderer(self, renderer: Box<dyn MetricsRenderer>) -> Self {
        self.map(|builder| builder.renderer(Box::new(ProfiledRenderer::new(renderer))))
    }

    /// As [`EvaluatorBuilder::summary`].
    pub fn summary(self) -> Self {
        self.map(EvaluatorBuilder::summary)
    }

    /// As [`EvaluatorBuilder::with_progress_logger`], measured as `[ProgressLogger].progress`.
    pub fn with_progress_logger<PL: EvaluationProgressLogger + 'static>(self, logger: PL) -> Self {
        self.map(|builder| builder.with_progress_logger(ProfiledProgressLogger::new(logger)))
    }

    /// As [`EvaluatorBuilder::build`].
    ///
    /// # Errors
    ///
    /// [`Error`] for a profiler that cannot be chosen, such as a name that is not one of
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

/// burn's evaluator, which keeps its model to itself.
enum Built<M: ModelUnderTest> {
    /// With a model whose steps are measured.
    WithSteps(Evaluator<EvaluatorComponentTypesMarker<TestModel<M>>>),
    /// With the user's.
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
    /// As [`ProfiledEvaluatorBuilder::log_dir`].
    pub fn log_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(directory.into());
        self
    }

    /// As [`ProfiledEvaluatorBuilder::on_interrupt`].
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// As [`Evaluator::eval`], with the profiler's report at the end.
    pub fn eval<S: Display>(self, name: S, dataloader: TestLoader<M>) -> EvaluationResult {
        self.eval_all([(name, dataloader)])
    }

    /// As [`Evaluator::eval_all`], with the profiler's report at the end, however it ends.
    pub fn eval_all<S: Display>(
        self,
        splits: impl IntoIterator<Item = (S, TestLoader<M>)>,
    ) -> EvaluationResult {
        let mut run = RunContext::from_environment();
        run.log_dir = self.log_dir;
        // Outlives the session: a report must not be cut short by the signal that asked for it.
        let stop = StopSignal::new(self.interrupt);
        let session = begin_session(self.profiler, Stage::Test, &run, self.interrupt);
        // The environment may have another one measure.
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
