//! Saving a training as a checkpoint.

use std::path::{Path, PathBuf};

use mlprof_core::ProfilerExt;
use mlprof_core::output::write_whole_at;

use crate::checkpoint::{
    Checkpoint, METRICS, OPTIMIZER, RANDOM, SCHEDULE, TRAINER, VERSION, WEIGHTS,
};
use crate::checkpoint_requests::Request;
use crate::error::{Result, TrainError};
use crate::listener::Selection;
use crate::module::TrainModule;
use crate::optimizer::TrainOptimizer;
use crate::run::{Run, failed_in};
use crate::saved_state::SavedState;

/// Value of the optimizer's section with the reason for its missing state.
pub(crate) const UNAVAILABLE: &str = "unavailable";

impl<M: TrainModule> Run<'_, M> {
    /// Saves a checkpoint after an epoch if the trainer has a checkpoint directory. If a callback
    /// decides which checkpoints are saved, it does nothing.
    pub(crate) fn save_checkpoint(&mut self) -> Result<(), TrainError> {
        let Some(directory) = self.settings.checkpoint_dir.clone() else { return Ok(()) };
        if self.listeners.iter().any(|listener| listener.saves_checkpoints) {
            return Ok(());
        }
        let stem = format!("epoch={}-step={}", self.state.epoch, self.state.global_step);
        self.state.save_checkpoint(&directory, &stem);
        self.serve_requests()
    }

    /// Saves and removes the checkpoints that hooks requested.
    pub(crate) fn serve_requests(&mut self) -> Result<(), TrainError> {
        if self.state.requests.queue.is_empty() {
            return Ok(());
        }
        let is_served = self.optimizers.is_some() && self.state.run.rank == 0;
        for request in std::mem::take(&mut self.state.requests.queue) {
            match request {
                Request::Save(path) if is_served => self.write_checkpoint(path)?,
                Request::Remove(path) if is_served => {
                    // The file may be gone, and an old file that stays does no harm.
                    let _ = std::fs::remove_file(path);
                }
                Request::Save(_) | Request::Remove(_) => {}
            }
        }
        Ok(())
    }

    fn write_checkpoint(&mut self, path: PathBuf) -> Result<(), TrainError> {
        let profiler = self.profiler.clone();
        let _scope = profiler.profile(self.actions.save_checkpoint);
        match self.write_checkpoint_to(&path) {
            Ok(()) => Ok(()),
            Err(Failure::Hook(error)) => Err(error),
            Err(Failure::File(source)) => Err(TrainError::Checkpoint { path, source }),
        }
    }

    fn write_checkpoint_to(&mut self, path: &Path) -> Result<(), Failure> {
        match self.module.weights().map_err(Failure::File)? {
            Some(weights) => self.checkpoint(weights)?.write(path).map_err(Failure::File),
            None => write_whole_at(path, |temporary| self.module.save_checkpoint(temporary))
                .map_err(Failure::File),
        }
    }

    /// Creates a checkpoint of the current training.
    fn checkpoint(&mut self, weights: SavedState) -> Result<Checkpoint, Failure> {
        let mut checkpoint = Checkpoint::default();
        *checkpoint.section_mut(WEIGHTS) = weights;
        let (state, own) = (&self.state, checkpoint.section_mut(TRAINER));
        own.set("version", VERSION);
        own.set("epoch", state.resume_point.epoch);
        own.set("batch", state.resume_point.batch);
        own.set("is_validated", state.resume_point.is_validated);
        own.set("is_plateau_due", state.resume_point.is_plateau_due);
        own.set("earlier_batches", state.resume_point.earlier_batches);
        own.set("epochs_run", state.epochs_run);
        own.set("global_step", state.global_step);
        own.set_option("seed", state.seed);
        own.set_option("loss", state.loss);
        if let Some(optimizers) = &self.optimizers {
            own.set("learning_rate", optimizers.optimizer.learning_rate());
            *checkpoint.section_mut(SCHEDULE) = optimizers.schedule_state();
            // A checkpoint with only the weights is better than none.
            *checkpoint.section_mut(OPTIMIZER) =
                optimizers.optimizer.state().unwrap_or_else(|reason| {
                    let mut state = SavedState::new();
                    state.set(UNAVAILABLE, reason);
                    state
                });
        }
        let random = self.optimizers.as_ref().map(|all| all.optimizer.random_state());
        // Without this state, everything except the random numbers resumes unchanged.
        if let Some(Ok(Some(random))) = random {
            *checkpoint.section_mut(RANDOM) = random;
        }
        let metrics = checkpoint.section_mut(METRICS);
        self.state.metrics().iter().for_each(|(name, value)| metrics.set(name, value));
        for (key, place) in self.callback_sections() {
            let listener = &mut self.listeners[place];
            let state = listener.callback().state();
            if !state.is_empty() {
                *checkpoint.section_mut(&key) = state;
            }
        }
        self.on_save_checkpoint(&mut checkpoint).map_err(Failure::Hook)?;
        Ok(checkpoint)
    }

    /// Returns the section name and the index of each callback.
    pub(super) fn callback_sections(&mut self) -> Vec<(String, usize)> {
        let mut sections: Vec<(String, usize)> = Vec::new();
        for (place, listener) in self.listeners.iter_mut().enumerate() {
            let key = format!("callback {}", listener.callback().state_key());
            let is_taken = |key: &String| sections.iter().any(|(other, _)| other == key);
            let numbered = (2_u64..).map(|number| format!("{key} {number}"));
            let free = std::iter::once(key.clone()).chain(numbered).find(|key| !is_taken(key));
            sections.extend(free.map(|key| (key, place)));
        }
        sections
    }

    fn on_save_checkpoint(&mut self, checkpoint: &mut Checkpoint) -> Result<(), TrainError> {
        self.call_listeners(
            "on_save_checkpoint",
            Selection::All,
            |actions| actions.on_save_checkpoint,
            |callback, context, state| callback.on_save_checkpoint(checkpoint, context, state),
        )?;
        let _scope = self.profiler.profile(self.actions.on_save_checkpoint);
        let result = self.module.on_save_checkpoint(checkpoint, &mut self.state);
        failed_in("on_save_checkpoint", &self.state, result)
    }
}

/// Error that prevents a checkpoint.
enum Failure {
    Hook(TrainError),
    File(crate::BoxError),
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_failed_checkpoint_leaves_the_earlier_one() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let save = |text: &'static str, fail: bool| {
            write_whole_at(&directory.path().join("epoch=0.txt"), |path| -> Result<()> {
                assert_eq!(path.extension(), Some("txt".as_ref()), "formats go by the extension");
                fs::write(path, text)?;
                if fail { Err("disk full".into()) } else { Ok(()) }
            })
        };
        save("first", false).expect("written");
        let error = save("half", true).expect_err("refused");
        assert_eq!(error.to_string(), "disk full");
        let names: Vec<_> = fs::read_dir(directory.path())
            .expect("directory")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        assert_eq!(names, ["epoch=0.txt"]);
        let text = fs::read_to_string(directory.path().join("epoch=0.txt")).expect("file");
        assert_eq!(text, "first");
    }
}
