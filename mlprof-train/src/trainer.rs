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
/// The report is also delivered when a stage ends with an error, a panic or Ctrl-C. A profiler does
/// not change the effect of Ctrl-C on the process; see [`on_interrupt`](Self::on_interrupt).
pub struct Trainer<M: TrainModule> {
    pub(super) settings: Settings,
    callbacks: Vec<Box<dyn Callback<M> + Send>>,
    /// Chosen profiler, or the error that the next stage returns.
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
    /// Creates a trainer with the default settings: no profiler, a progress bar, two sanity-check
    /// steps, and validation after every epoch. Rank and world size come from the
    /// [environment](RunContext::from_environment).
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            callbacks: Vec::new(),
            profiler: Ok(Arc::new(PassThroughProfiler)),
            run: RunContext::from_environment(),
        }
    }

    /// Sets the profiler for every stage: `"simple"`, `"advanced"`, your own profiler, several
    /// profilers, or `None`. The environment variable `MLPROF_PROFILER` (see [`IntoProfiler`])
    /// takes precedence. It also enables a profiler if this method is not called.
    ///
    /// If the profiler cannot be chosen, the next stage returns the error. For an unknown name,
    /// [`fit`](Self::fit) returns [`TrainError::Profiler`].
    #[must_use]
    pub fn profiler(mut self, profiler: impl IntoProfiler) -> Self {
        self.profiler = profiler.into_profiler();
        self
    }

    /// Ends the fit after `epochs` epochs. The default is 1000 epochs, or no limit if there is a
    /// [`max_steps`](Self::max_steps) or a [`max_time`](Self::max_time).
    #[must_use]
    pub fn max_epochs(mut self, epochs: usize) -> Self {
        self.settings.max_epochs = Some(epochs);
        self
    }

    /// Ends the fit after `steps` optimizer steps, even in the middle of an epoch.
    #[must_use]
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.settings.max_steps = Some(steps);
        self
    }

    /// Limits the training batches per epoch, as a number or as a share of all batches.
    #[must_use]
    pub fn limit_train_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_train_batches = limit.into();
        self
    }

    /// Limits the validation batches, as a number or as a share of all batches. 0 turns validation
    /// off.
    #[must_use]
    pub fn limit_val_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_val_batches = limit.into();
        self
    }

    /// Limits the test batches, as a number or as a share of all batches.
    #[must_use]
    pub fn limit_test_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_test_batches = limit.into();
        self
    }

    /// Limits the batches to predict, as a number or as a share of all batches.
    #[must_use]
    pub fn limit_predict_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.limit_predict_batches = limit.into();
        self
    }

    /// Sets how often to validate within an epoch, as a number of training batches or as a share of
    /// the epoch. The default, 1.0, validates once at the end of each epoch.
    #[must_use]
    pub fn val_check_interval(mut self, interval: impl Into<Portion>) -> Self {
        self.settings.val_check_interval = interval.into();
        self
    }

    /// Accumulates the gradients of `batches` batches before each optimizer step. Each loss is
    /// divided by this number, so that the gradients are those of the mean.
    #[must_use]
    pub fn accumulate_grad_batches(mut self, batches: usize) -> Self {
        self.settings.accumulate_grad_batches = batches;
        self
    }

    /// Scales gradients before each optimizer step so that their norm is at most `max_norm`.
    /// [`gradient_clip_algorithm`](Self::gradient_clip_algorithm) can select clipping by value
    /// instead.
    #[must_use]
    pub fn gradient_clip_val(mut self, max_norm: f64) -> Self {
        self.settings.gradient_clip_val = Some(max_norm);
        self
    }

    /// Sets how often the loss is read on an accelerator, where reading waits for the device. The
    /// loss is read every `steps` batches (50 by default) and at the end of each epoch. On a CPU,
    /// it is read after every batch.
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

    /// Saves the module in `directory` after every epoch, as
    /// `epoch={epoch}-step={step}.{extension}`. Reports with a file name but no directory are also
    /// written there.
    #[must_use]
    pub fn checkpoint_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.checkpoint_dir = Some(directory.into());
        self
    }

    /// Sets the seed that [`TrainModule::seed_everything`] and the loaders receive.
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

    /// Lets `mlprof ps`, `mlprof top` and `mlprof record` connect to this process from now on, as
    /// `MLPROF_LIVE=1` does. With `false`, the default, the environment decides. `MLPROF_LIVE=0`
    /// forbids connections. It requires a plugin of mlprof with the feature `live`, or the crate
    /// `mlprof-live`. If the endpoint cannot open, a message on standard error states the reason,
    /// and the training continues.
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

    /// Sets the rank, the world size and the report directory, instead of reading them from the
    /// environment.
    #[must_use]
    pub fn run_context(mut self, run: RunContext) -> Self {
        self.run = run;
        self
    }

    /// Trains `module`. If there is validation data, it also validates according to the settings.
    ///
    /// # Errors
    ///
    /// Returns an error if the settings are invalid, or if the module, a callback or a loader
    /// fails. The report has been delivered by then.
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

    /// Continues the training that saved the checkpoint `ckpt_path`, like Lightning's
    /// `fit(ckpt_path=…)`. It restores the weights, the state of optimizer, learning rate and
    /// callbacks, the epoch, batch, step and seed. The training then continues as it would have
    /// without the interruption, bit for bit if the framework's operations are deterministic.
    /// [`max_epochs`](Self::max_epochs) and [`max_steps`](Self::max_steps) count from the beginning
    /// of the first fit.
    ///
    /// After a checkpoint from the middle of an epoch, the trainer fetches the batches that were
    /// already used and skips them. The sanity check does not run.
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
    /// Returns the errors of [`fit`](Self::fit), and [`TrainError::Resume`] if the checkpoint
    /// cannot be used. Module and callbacks are unchanged in the latter case.
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

    /// Runs only the validation steps.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`fit`](Self::fit).
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
    /// Returns the same errors as [`fit`](Self::fit).
    pub fn test(
        &mut self,
        module: &mut M,
        data: &dyn DataLoader<M::Batch>,
    ) -> Result<EvaluationOutcome, TrainError> {
        self.stage(module, Stage::Test, |run| run.evaluation(data, Stage::Test, None))
    }

    /// Runs the predict steps. To get predictions as a return value, use
    /// [`predict_with`](Self::predict_with).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`fit`](Self::fit).
    pub fn predict(
        &mut self,
        module: &mut M,
        data: &dyn DataLoader<M::Batch>,
    ) -> Result<EvaluationOutcome, TrainError> {
        self.stage(module, Stage::Predict, |run| run.evaluation(data, Stage::Predict, None))
    }

    /// Predicts each batch with `predict` instead of [`TrainModule::predict_step`]. Returns the
    /// predictions in the order of the batches.
    ///
    /// ```
    /// # use mlprof_train::{Optimizers, Result, TrainModule, TrainOptimizer};
    /// # use mlprof_train::{Trainer, TrainerState};
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
    /// Returns the same errors as [`fit`](Self::fit). Predictions made before the error are lost.
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

    /// Runs one stage. Its profiler is active meanwhile and reports when the stage ends, also after
    /// an error or a panic.
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
        // The environment may select a profiler even if the program selects none.
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
