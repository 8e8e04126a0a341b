//! The trainer: its settings, and how a stage begins and ends.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::actions::RunActions;
use super::error::{BoxError, TrainError};
use super::fit::FitData;
use super::listener::Listener;
use super::loader::DataLoader;
use super::module::{Callback, TrainModule};
use super::outcome::{EvaluationOutcome, FitOutcome};
use super::portion::Portion;
use super::progress::ProgressBar;
use super::run::Run;
use super::settings::Settings;
use super::state::TrainerState;
use mlprof_core::names::short_type_name;
use mlprof_core::{
    Error, Interrupt, IntoProfiler, PassThroughProfiler, Profiler, RunContext, Session, Stage,
};
use mlprof_events::clock::Stopwatch;

/// Trains, validates, tests and predicts with the module `M`, and ends each with the report of its
/// profiler. Settings and their defaults are Lightning's; see the [module](super).
///
/// `M` is the type of the module that a trainer and its callbacks are for. The compiler infers it
/// from [`fit`](Self::fit); a field or a return type names it, as in `Trainer<Net>`.
///
/// The report comes also when a stage ends by an error, a panic or Ctrl-C. What Ctrl-C does to the
/// process a profiler does not change, see [`on_interrupt`](Self::on_interrupt).
pub struct Trainer<M: TrainModule> {
    pub(super) settings: Settings,
    callbacks: Vec<Box<dyn Callback<M> + Send>>,
    /// The chosen profiler, or the error that the next stage returns.
    profiler: Result<Arc<dyn Profiler>, Error>,
    run: RunContext,
}
mlprof_core::debug_as_name!([M: TrainModule] Trainer<M>);

impl<M: TrainModule> Default for Trainer<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: TrainModule> Trainer<M> {
    /// No profiler, a progress bar, two sanity-check steps, validation after every epoch. Rank and
    /// world size come from the [environment](RunContext::from_environment).
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            callbacks: Vec::new(),
            profiler: Ok(Arc::new(PassThroughProfiler)),
            run: RunContext::from_environment(),
        }
    }

    /// Measures every stage: `"simple"`, `"advanced"`, a profiler of your own, several, or `None`. What
    /// the environment says (`MLPROF_PROFILER`, see [`IntoProfiler`]) takes its place, and measures also
    /// where this is not called.
    ///
    /// A profiler that cannot be chosen is an error of the next stage: [`fit`](Self::fit) returns
    /// [`TrainError::Profiler`] for an unknown name.
    #[must_use]
    pub fn profiler(mut self, profiler: impl IntoProfiler) -> Self {
        self.profiler = profiler.into_profiler();
        self
    }

    /// Ends the fit after so many epochs; 1000 by default, without limit if there is a
    /// [`max_steps`](Self::max_steps) or a [`max_time`](Self::max_time).
    #[must_use]
    pub fn max_epochs(mut self, epochs: usize) -> Self {
        self.settings.max_epochs = Some(epochs);
        self
    }

    /// Ends the fit after so many optimizer steps, in the middle of an epoch if need be.
    #[must_use]
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.settings.max_steps = Some(steps);
        self
    }

    /// Uses so many training batches per epoch, or this share of them.
    #[must_use]
    pub fn limit_train_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_train_batches = limit.into();
        self
    }

    /// Uses so many validation batches, or this share of them; 0 turns validation off.
    #[must_use]
    pub fn limit_val_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_val_batches = limit.into();
        self
    }

    /// Uses so many test batches, or this share of them.
    #[must_use]
    pub fn limit_test_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_test_batches = limit.into();
        self
    }

    /// Uses so many batches to predict, or this share of them.
    #[must_use]
    pub fn limit_predict_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_predict_batches = limit.into();
        self
    }

    /// Validates after every so many training batches of an epoch, or after this share of it; 1.0,
    /// at its end, by default.
    #[must_use]
    pub fn val_check_interval(mut self, interval: impl Into<Portion>) -> Self {
        self.settings.val_check_interval = interval.into();
        self
    }

    /// Adds up the gradients of so many batches before each optimizer step. Losses are divided by
    /// this number, so that gradients are those of the mean.
    #[must_use]
    pub fn accumulate_grad_batches(mut self, batches: usize) -> Self {
        self.settings.accumulate_grad_batches = batches;
        self
    }

    /// Scales gradients before each optimizer step so that their norm is at most this, or clips
    /// them otherwise: see [`gradient_clip_algorithm`](Self::gradient_clip_algorithm).
    #[must_use]
    pub fn gradient_clip_val(mut self, max_norm: f64) -> Self {
        self.settings.gradient_clip_val = Some(max_norm);
        self
    }

    /// On an accelerator, reads the loss only after every so many batches (50 by default) and at
    /// the end of each epoch: reading waits for the device. On a CPU it is read after every one.
    #[must_use]
    pub fn log_every_n_steps(mut self, steps: usize) -> Self {
        self.settings.log_every_n_steps = steps;
        self
    }

    /// Sets whether a loss that is not a number, or infinite, ends the fit with an error; true by
    /// default.
    #[must_use]
    pub fn stop_on_invalid_loss(mut self, stops: bool) -> Self {
        self.settings.stop_on_invalid_loss = stops;
        self
    }

    /// Saves the module here after every epoch, as `epoch={epoch}-step={step}.{extension}`.
    /// Reports with a file name but no directory go here, too.
    #[must_use]
    pub fn checkpoint_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.checkpoint_dir = Some(directory.into());
        self
    }

    /// Given to [`TrainModule::seed_everything`] and to loaders.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Sets whether progress is shown on standard error, on rank 0: a bar on a terminal, a line per
    /// epoch elsewhere.
    #[must_use]
    pub fn progress_bar(mut self, shows: bool) -> Self {
        self.settings.shows_progress = shows;
        self
    }

    /// Sets the effect of the first Ctrl-C (or SIGTERM, or SIGHUP) during a stage. By default it
    /// ends the process, as without a profiler, after the report. With [`Interrupt::Return`], which
    /// needs no profiler, it ends the stage after the running batch, with a checkpoint;
    /// [`fit`](Self::fit) then returns [`StopReason::Interrupted`](super::StopReason::Interrupted),
    /// and the program goes on. See the module [`interrupt`](mlprof_core::interrupt).
    #[must_use]
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.settings.interrupt = interrupt;
        self
    }

    /// Sets whether the process listens to `mlprof ps`, `mlprof top` and `mlprof record` from here
    /// on, to its end, as with `MLPROF_LIVE=1` in its environment. `false`, the default, leaves
    /// that to the environment, and `MLPROF_LIVE=0` forbids it. It takes one of mlprof's plugins,
    /// or the crate `mlprof-live`; what is in the way is said on standard error, and the training
    /// goes on.
    ///
    /// *Cost*: some nanoseconds per action, and an uncontended lock per step.
    #[must_use]
    pub fn live(self, listens: bool) -> Self {
        if listens {
            mlprof_core::watcher::listen();
        }
        self
    }

    /// Adds a callback, which stays in the trainer for all of its stages. Callbacks are called in
    /// the order they were added.
    #[must_use]
    pub fn callback(mut self, callback: impl Callback<M> + Send + 'static) -> Self {
        self.callbacks.push(Box::new(callback));
        self
    }

    /// Sets rank, world size and the directory for reports, instead of the environment.
    #[must_use]
    pub fn run_context(mut self, run: RunContext) -> Self {
        self.run = run;
        self
    }

    /// Trains `module`, validating as the settings say if there is validation data.
    ///
    /// # Errors
    ///
    /// Settings that make no sense, and whatever module, callbacks or loaders return; the report
    /// has been delivered by then.
    pub fn fit(
        &mut self,
        module: &mut M,
        train: &dyn DataLoader<M::Batch>,
        validation: Option<&dyn DataLoader<M::Batch>>,
    ) -> Result<FitOutcome, TrainError> {
        self.stage(module, Stage::Fit, |run| {
            run.fit(&FitData { train, validation, ckpt_path: None })
        })
    }

    /// Goes on with the training that has saved the checkpoint `ckpt_path`, as Lightning's
    /// `fit(ckpt_path=…)`. Restored are the weights, the state of optimizer, learning rate and
    /// callbacks, epoch, batch, step and seed: training then does what it would have done without
    /// the interruption, to the last bit where the framework's own operations repeat.
    /// [`max_epochs`](Self::max_epochs) and [`max_steps`](Self::max_steps) count from the beginning
    /// of the first fit.
    ///
    /// A checkpoint from the middle of an epoch skips the batches that have been learned from: it
    /// fetches them from the loader, without a step. There is no sanity check.
    ///
    /// Random numbers that the model draws itself, such as those of dropout, begin with the seed
    /// again. The module implements [`weights`](TrainModule::weights) and
    /// [`load_weights`](TrainModule::load_weights).
    ///
    /// ```no_run
    /// # use mlprof_train::{FitOutcome, TrainError, TrainModule, Trainer};
    /// # fn resume<M: TrainModule<Batch = f64>>(net: &mut M) -> Result<FitOutcome, TrainError> {
    /// # let batches = vec![1.0];
    /// let mut trainer = Trainer::new().max_epochs(10).checkpoint_dir("saved");
    /// trainer.resume(net, "saved/epoch=3-step=160.safetensors", &batches, None)
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`fit`](Self::fit), and [`TrainError::Resume`] if the checkpoint cannot be used;
    /// module and callbacks are then what they were.
    pub fn resume(
        &mut self,
        module: &mut M,
        ckpt_path: impl AsRef<Path>,
        train: &dyn DataLoader<M::Batch>,
        validation: Option<&dyn DataLoader<M::Batch>>,
    ) -> Result<FitOutcome, TrainError> {
        let ckpt_path = Some(ckpt_path.as_ref());
        self.stage(module, Stage::Fit, |run| run.fit(&FitData { train, validation, ckpt_path }))
    }

    /// Runs the validation steps alone.
    ///
    /// # Errors
    ///
    /// As [`fit`](Self::fit).
    pub fn validate(
        &mut self,
        module: &mut M,
        data: &dyn DataLoader<M::Batch>,
    ) -> Result<EvaluationOutcome, TrainError> {
        self.stage(module, Stage::Validate, |run| run.evaluation(data, Stage::Validate, None))
    }

    /// Runs the test steps.
    ///
    /// # Errors
    ///
    /// As [`fit`](Self::fit).
    pub fn test(
        &mut self,
        module: &mut M,
        data: &dyn DataLoader<M::Batch>,
    ) -> Result<EvaluationOutcome, TrainError> {
        self.stage(module, Stage::Test, |run| run.evaluation(data, Stage::Test, None))
    }

    /// Runs the predict steps. [`predict_with`](Self::predict_with) returns predictions.
    ///
    /// # Errors
    ///
    /// As [`fit`](Self::fit).
    pub fn predict(
        &mut self,
        module: &mut M,
        data: &dyn DataLoader<M::Batch>,
    ) -> Result<EvaluationOutcome, TrainError> {
        self.stage(module, Stage::Predict, |run| run.evaluation(data, Stage::Predict, None))
    }

    /// Runs `predict` for each batch, in place of [`TrainModule::predict_step`], and returns what
    /// it returned, in the order of the batches.
    ///
    /// ```
    /// # use mlprof_train::{Optimizers, Result, TrainModule, TrainOptimizer, Trainer, TrainerState};
    /// # fn doubled<M: TrainModule<Batch = f64>>(module: &mut M) -> Result<()> {
    /// let data = vec![1.0, 2.0];
    /// let mut trainer = Trainer::new();
    /// let (doubled, outcome) =
    ///     trainer.predict_with(module, &data, |_module, input, _trainer| Ok(2.0 * input))?;
    /// assert_eq!((doubled, outcome.batches), (vec![2.0, 4.0], 2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`fit`](Self::fit). Predictions made by then are lost.
    pub fn predict_with<P>(
        &mut self,
        module: &mut M,
        data: &dyn DataLoader<M::Batch>,
        mut predict: impl FnMut(&mut M, &M::Batch, &mut TrainerState) -> Result<P, BoxError>,
    ) -> Result<(Vec<P>, EvaluationOutcome), TrainError> {
        let mut predictions = Vec::new();
        let mut step = |module: &mut M, batch: &M::Batch, trainer: &mut TrainerState| {
            predictions.push(predict(module, batch, trainer)?);
            Ok(())
        };
        let outcome = self.stage(module, Stage::Predict, |run| {
            run.evaluation(data, Stage::Predict, Some(&mut step))
        })?;
        Ok((predictions, outcome))
    }

    /// One stage: its profiler is active while it runs, and reports when it ends in any way.
    fn stage<T>(
        &mut self,
        module: &mut M,
        stage: Stage,
        body: impl FnOnce(&mut Run<'_, M>) -> Result<T, TrainError>,
    ) -> Result<T, TrainError> {
        let settings = self.settings.resolved().map_err(TrainError::Setting)?;
        let profiler = self.profiler.clone().map_err(|source| TrainError::Profiler { source })?;
        let mut run = self.run.clone();
        if run.log_dir.is_none() {
            run.log_dir.clone_from(&self.settings.checkpoint_dir);
        }
        run.seed = self.settings.seed.or(run.seed);
        let session = Session::with(profiler, stage, &run).on_interrupt(self.settings.interrupt);
        // The environment may have one where the program has none.
        let profiler = session.profiler();
        let progress = (self.settings.shows_progress && run.rank == 0)
            .then(|| Listener::owned(Box::new(ProgressBar::new())));
        let added = self.callbacks.iter_mut().map(|callback| Listener::borrowed(&mut **callback));
        let extension = module.checkpoint_extension();
        let mut running = Run {
            profiler: profiler.clone(),
            module,
            optimizers: None,
            batch: None,
            loss: None,
            has_gradients: false,
            listeners: progress.into_iter().chain(added).collect(),
            actions: RunActions::new(short_type_name::<M>()),
            state: TrainerState::new(
                profiler.clone(),
                run,
                settings.seed,
                settings.max_epochs,
                stage,
            ),
            session: &session,
            settings: &settings,
            began: Stopwatch::start(),
        };
        running.state.overfits = settings.overfit_batches.is_some();
        running.state.validates_once_per_epoch = settings.val_check_interval == Portion::Share(1.0)
            && settings.check_val_every_n_epoch == Some(1);
        running.state.requests.extension = extension;
        running.state.requests.directory.clone_from(&settings.checkpoint_dir);
        body(&mut running).inspect_err(|error| running.on_exception(error))
    }
}
