//! Selection of the checkpoints that a fit saves and keeps.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::monitored;
use crate::error::Result;
use crate::mode::Mode;
use crate::module::{Callback, HookContext, TrainModule};
use crate::saved_state::SavedState;
use crate::state::TrainerState;
use mlprof_core::Stage;

/// Saves checkpoints and removes old ones, like Lightning's callback of the same name.
///
/// With a [`monitor`](Self::monitor) it keeps the best [`save_top_k`](Self::save_top_k), without
/// one the latest. A trainer that has it saves no checkpoints by itself. A clone shares the list of
/// files, which can be read while and after the trainer runs.
///
/// It saves after each training epoch if the trainer validates once per epoch, and after each
/// validation otherwise; or [every so many steps](Self::every_n_train_steps). In the middle of an
/// epoch, training is [resumed](crate::Trainer::resume) there.
///
/// ```
/// use mlprof_train::{Mode, ModelCheckpoint, Trainer};
///
/// let saving = ModelCheckpoint::new().monitor("val_loss", Mode::Min);
/// let saving = saving.save_top_k(3).save_last(true);
/// # fn with<M: mlprof_train::TrainModule>(saving: &ModelCheckpoint) -> Trainer<M> {
/// let trainer = Trainer::new().checkpoint_dir("saved").callback(saving.clone());
/// // trainer.fit(…)?;
/// # trainer
/// # }
/// assert_eq!(saving.best_model_path(), None, "nothing was trained");
/// ```
#[derive(Debug, Clone)]
pub struct ModelCheckpoint {
    dirpath: Option<PathBuf>,
    filename: String,
    monitor: Option<(String, Mode)>,
    top_k: Option<usize>,
    saves_last: bool,
    every_n_train_steps: Option<usize>,
    every_n_epochs: usize,
    save_on_train_epoch_end: Option<bool>,
    /// Optimizer step of the checkpoint that was saved last.
    saved_step: Option<usize>,
    kept: Arc<Mutex<SavedFiles>>,
}

/// Checkpoint files that are kept, and their values of the monitored metric.
#[derive(Debug, Clone, Default)]
struct SavedFiles {
    /// Checkpoints from best to worst; of equal ones, the earlier comes first. Without a metric,
    /// they are ordered from latest to oldest.
    top: Vec<(PathBuf, f64)>,
    last: Option<PathBuf>,
}

impl Default for ModelCheckpoint {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelCheckpoint {
    /// Creates a callback that keeps the latest checkpoint. It saves after each epoch in the
    /// trainer's [`checkpoint_dir`](crate::Trainer::checkpoint_dir).
    pub fn new() -> Self {
        Self {
            dirpath: None,
            filename: "{epoch}-{step}".to_owned(),
            monitor: None,
            top_k: Some(1),
            saves_last: false,
            every_n_train_steps: None,
            every_n_epochs: 1,
            save_on_train_epoch_end: None,
            saved_step: None,
            kept: Arc::default(),
        }
    }

    /// Sets the directory, instead of the trainer's.
    #[must_use]
    pub fn dirpath(mut self, directory: impl Into<PathBuf>) -> Self {
        self.dirpath = Some(directory.into());
        self
    }

    /// Sets the names of the files, without extension. `{epoch}`, `{step}` and metrics in braces
    /// become `name=value`. `{val_loss:.3}` sets the number of decimals. The default is
    /// `{epoch}-{step}`.
    #[must_use]
    pub fn filename(mut self, template: impl Into<String>) -> Self {
        self.filename = template.into();
        self
    }

    /// Keeps the checkpoints with the best values of this metric.
    #[must_use]
    pub fn monitor(mut self, metric: impl Into<String>, mode: Mode) -> Self {
        self.monitor = Some((metric.into(), mode));
        self
    }

    /// Sets how many checkpoints are kept; 1 by default, 0 for none except
    /// [the last](Self::save_last), and `None` for all.
    #[must_use]
    pub fn save_top_k(mut self, checkpoints: impl Into<Option<usize>>) -> Self {
        self.top_k = checkpoints.into();
        self
    }

    /// Sets whether each checkpoint is also saved as `last`, in place of the one before; false by
    /// default.
    #[must_use]
    pub fn save_last(mut self, saves: bool) -> Self {
        self.saves_last = saves;
        self
    }

    /// Saves after every `steps` optimizer steps, instead of after epochs or validations.
    #[must_use]
    pub fn every_n_train_steps(mut self, steps: usize) -> Self {
        self.every_n_train_steps = Some(steps.max(1));
        self
    }

    /// Saves only after every `epochs` epochs. The default is 1.
    #[must_use]
    pub fn every_n_epochs(mut self, epochs: usize) -> Self {
        self.every_n_epochs = epochs.max(1);
        self
    }

    /// Sets whether checkpoints are saved after training epochs (`true`) or validations (`false`).
    #[must_use]
    pub fn save_on_train_epoch_end(mut self, saves: bool) -> Self {
        self.save_on_train_epoch_end = Some(saves);
        self
    }

    /// Returns the best checkpoint by the monitored metric, or the latest one if there is no
    /// metric.
    pub fn best_model_path(&self) -> Option<PathBuf> {
        self.lock().top.first().map(|(path, _)| path.clone())
    }

    /// Returns the checkpoints that are kept and their values of the monitored metric, the best one
    /// first. Without a metric, the latest one is first and the values are 0.
    pub fn best_k_models(&self) -> Vec<(PathBuf, f64)> {
        self.lock().top.clone()
    }

    /// Returns the checkpoint of [`save_last`](Self::save_last).
    pub fn last_model_path(&self) -> Option<PathBuf> {
        self.lock().last.clone()
    }

    fn lock(&self) -> MutexGuard<'_, SavedFiles> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn directory(&self, trainer: &TrainerState) -> Result<PathBuf> {
        let of_trainer = || trainer.checkpoint_dir().map(Path::to_owned);
        self.dirpath.clone().or_else(of_trainer).ok_or_else(|| {
            "cannot save checkpoints: there is no directory; set Trainer::checkpoint_dir or \
             ModelCheckpoint::dirpath"
                .into()
        })
    }

    fn saves_after_epochs(&self, trainer: &TrainerState) -> bool {
        self.save_on_train_epoch_end.unwrap_or(trainer.validates_once_per_epoch)
    }

    fn is_due_in(&self, epoch: usize) -> bool {
        self.every_n_train_steps.is_none() && (epoch + 1).is_multiple_of(self.every_n_epochs)
    }

    fn save(&mut self, trainer: &mut TrainerState) -> Result<()> {
        let step = trainer.global_step();
        if self.saved_step == Some(step) {
            return Ok(());
        }
        let directory = self.directory(trainer)?;
        self.saved_step = Some(step);
        self.save_top(trainer, &directory)?;
        if self.saves_last {
            let last = self.last_model_path();
            match last.filter(|path| path.parent() == Some(&directory)) {
                Some(path) => trainer.replace_checkpoint(&path),
                None => {
                    let path = trainer.save_checkpoint(&directory, "last");
                    self.lock().last = Some(path);
                }
            }
        }
        Ok(())
    }

    fn save_top(&mut self, trainer: &mut TrainerState, directory: &Path) -> Result<()> {
        if self.top_k == Some(0) {
            return Ok(());
        }
        let value = match &self.monitor {
            Some((metric, mode)) => {
                let value = monitored(trainer, metric)?;
                // NaN counts as the worst value.
                Some((if value.is_nan() { mode.worst() } else { value }, *mode))
            }
            None => None,
        };
        let mut kept = self.lock();
        // Checkpoints in another directory, from before training was resumed, are not removed.
        kept.top.retain(|(path, _)| path.parent() == Some(directory));
        let is_full = self.top_k.is_some_and(|most| kept.top.len() >= most);
        let place = match value {
            Some((value, mode)) => {
                let worse = |(_, other): &(PathBuf, f64)| mode.is_better(value, *other);
                let place = kept.top.iter().position(worse).unwrap_or(kept.top.len());
                if is_full && place == kept.top.len() {
                    return Ok(());
                }
                place
            }
            None => 0,
        };
        let stem = stem(&self.filename, trainer);
        let path = trainer.save_checkpoint(directory, &stem);
        kept.top.insert(place, (path, value.map_or(0.0, |(value, _)| value)));
        if let Some(most) = self.top_k {
            while kept.top.len() > most {
                let Some((worst, _)) = kept.top.pop() else { break };
                trainer.remove_checkpoint(&worst);
            }
        }
        Ok(())
    }
}

/// Returns the name of a file without its extension.
fn stem(template: &str, trainer: &TrainerState) -> String {
    let mut stem = String::new();
    let mut rest = template;
    while let Some((before, inside)) = rest.split_once('{') {
        stem.push_str(before);
        let Some((field, after)) = inside.split_once('}') else {
            rest = &rest[before.len()..];
            break;
        };
        let (name, decimals) = match field.split_once(":.") {
            Some((name, decimals)) => (name, decimals.trim_end_matches('f').parse().ok()),
            None => (field, None),
        };
        let value = match name {
            "epoch" => trainer.epoch().to_string(),
            "step" => trainer.global_step().to_string(),
            metric => {
                let value = trainer.metric(metric).unwrap_or(0.0);
                decimals.map_or(value.to_string(), |decimals: usize| format!("{value:.decimals$}"))
            }
        };
        stem.push_str(&format!("{name}={value}"));
        rest = after;
    }
    stem.push_str(rest);
    // The file must be directly in the directory, even if a metric's name contains a slash.
    stem.replace(['/', '\\'], "_")
}

impl<M: TrainModule> Callback<M> for ModelCheckpoint {
    fn state_key(&self) -> String {
        let monitor = match &self.monitor {
            Some((metric, mode)) => format!(" monitor={metric} mode={}", mode.name()),
            None => String::new(),
        };
        let steps = self.every_n_train_steps.unwrap_or(0);
        format!("ModelCheckpoint{monitor} steps={steps} epochs={}", self.every_n_epochs)
    }

    fn state(&self) -> SavedState {
        let mut state = SavedState::new();
        let kept = self.lock();
        state.set_option("saved_step", self.saved_step);
        state.set_option("last", kept.last.as_ref().map(|path| path.display()));
        state.set("top", kept.top.len());
        for (place, (path, value)) in kept.top.iter().enumerate() {
            state.set(&format!("path/{place}"), path.display());
            state.set(&format!("value/{place}"), value);
        }
        state
    }

    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        let saved_step = state.get_option("saved_step")?;
        let last: Option<String> = state.get_option("last")?;
        let top = (0..state.get("top")?).map(|place: usize| {
            let path: String = state.get(&format!("path/{place}"))?;
            Ok((PathBuf::from(path), state.get(&format!("value/{place}"))?))
        });
        let top = top.collect::<Result<Vec<(PathBuf, f64)>>>()?;
        self.saved_step = saved_step;
        // Files that have been moved or removed since then no longer belong to this callback.
        let is_there = |path: &PathBuf| path.is_file();
        let mut kept = self.lock();
        kept.last = last.map(PathBuf::from).filter(is_there);
        kept.top = top.into_iter().filter(|(path, _)| is_there(path)).collect();
        Ok(())
    }

    fn saves_checkpoints(&self) -> bool {
        true
    }

    fn on_fit_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.directory(trainer).map(drop)
    }

    fn on_train_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let step = trainer.global_step();
        match self.every_n_train_steps {
            Some(steps) if step > 0 && step.is_multiple_of(steps) => self.save(trainer),
            _ => Ok(()),
        }
    }

    fn on_validation_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let is_due = trainer.is_fit()
            && trainer.stage() == Stage::Validate
            && !self.saves_after_epochs(trainer)
            && self.is_due_in(trainer.epoch());
        if is_due { self.save(trainer) } else { Ok(()) }
    }

    fn on_train_epoch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let is_due = self.saves_after_epochs(trainer) && self.is_due_in(trainer.epoch());
        if is_due { self.save(trainer) } else { Ok(()) }
    }
}
