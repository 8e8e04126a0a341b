//! A fit of one module, with options that concern only that module.

use std::path::PathBuf;

use mlprof_core::Stage;

use super::error::TrainError;
use super::fit::FitData;
use super::loader::DataLoader;
use super::module::TrainModule;
use super::module_callback::ModuleCallback;
use super::outcome::FitOutcome;
use super::trainer::Trainer;

/// Fit that resumes from a checkpoint or has callbacks that see the module. [`Trainer::prepare`]
/// creates it.
#[must_use = "nothing is trained before `fit`"]
pub struct PreparedFit<'run, M: TrainModule> {
    trainer: &'run mut Trainer,
    module: &'run mut M,
    callbacks: Vec<&'run mut dyn ModuleCallback<M>>,
    ckpt_path: Option<PathBuf>,
}
mlprof_core::debug_as_name!([M: TrainModule] PreparedFit<'_, M>);

impl Trainer {
    /// Prepares a fit of `module` with options that concern only this module. Without such options,
    /// it is the same as [`fit`](Self::fit).
    ///
    /// ```no_run
    /// # use mlprof_train::{FitOutcome, TrainError, TrainModule, Trainer};
    /// # fn resume<M: TrainModule<Batch = f64>>(net: &mut M) -> Result<FitOutcome, TrainError> {
    /// # let batches = vec![1.0];
    /// let mut trainer = Trainer::new().max_epochs(10).checkpoint_dir("saved");
    /// let saved = "saved/epoch=3-step=160.safetensors";
    /// trainer.prepare(net).ckpt_path(saved).fit(&batches, None)
    /// # }
    /// ```
    pub fn prepare<'run, M: TrainModule>(
        &'run mut self,
        module: &'run mut M,
    ) -> PreparedFit<'run, M> {
        PreparedFit { trainer: self, module, callbacks: Vec::new(), ckpt_path: None }
    }
}

impl<'run, M: TrainModule> PreparedFit<'run, M> {
    /// Adds a callback that sees the module. Its hooks are called after those of the trainer's own
    /// callbacks, except that callbacks that save checkpoints come last.
    pub fn callback(mut self, callback: &'run mut dyn ModuleCallback<M>) -> Self {
        self.callbacks.push(callback);
        self
    }

    /// Resumes from this checkpoint, like Lightning's `fit(ckpt_path=…)`. It restores the weights,
    /// the state of the optimizer and the callbacks, the learning rate, epoch, batch, step and
    /// seed.
    ///
    /// Training then does what it would have done without the interruption, bit for bit if the
    /// framework's own operations are deterministic. The trainer's
    /// [`max_epochs`](Trainer::max_epochs) and [`max_steps`](Trainer::max_steps) count from the
    /// beginning of the first fit.
    ///
    /// If the checkpoint is from the middle of an epoch, the fit fetches and skips the batches that
    /// the model has already learned from. A resumed fit has no sanity check.
    ///
    /// Random numbers that the model draws itself, such as those of dropout, start from the seed
    /// again, unless the optimizer saves its [random state](super::TrainOptimizer::random_state).
    /// The module must implement [`weights`](TrainModule::weights) and
    /// [`load_weights`](TrainModule::load_weights).
    pub fn ckpt_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.ckpt_path = Some(path.into());
        self
    }

    /// Trains the module. If there is validation data, it also validates according to the trainer's
    /// settings.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Trainer::fit`], and [`TrainError::Resume`] if the checkpoint cannot
    /// be used. In that case, the module and the callbacks are unchanged.
    pub fn fit(
        mut self,
        train: &dyn DataLoader<M::Batch>,
        validation: Option<&dyn DataLoader<M::Batch>>,
    ) -> Result<FitOutcome, TrainError> {
        let ckpt_path = self.ckpt_path.as_deref();
        self.trainer.stage(self.module, Stage::Fit, &mut self.callbacks, |run| {
            run.fit(&FitData { train, validation, ckpt_path })
        })
    }
}
