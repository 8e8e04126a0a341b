//! Checkpoints: the state of a training at one point, from which it can resume.

mod file;

use std::collections::BTreeMap;

use super::error::Result;
use super::saved_state::SavedState;

/// Version of the format.
pub(crate) const VERSION: u32 = 1;
/// Section of the loop: epoch, batch, step and seed.
pub(crate) const TRAINER: &str = "trainer";
/// Section of the module's weights.
pub(crate) const WEIGHTS: &str = "weights";
/// Section of the optimizer.
pub(crate) const OPTIMIZER: &str = "optimizer";
/// Section of a learning rate schedule that follows a metric.
pub(crate) const SCHEDULE: &str = "schedule";
/// Section of the framework's random number generators.
pub(crate) const RANDOM: &str = "random";
/// Section of the metrics of finished passes.
pub(crate) const METRICS: &str = "metrics";

/// State of a training at one point: the module's weights, and the state of the optimizer, the loop
/// and the callbacks.
///
/// A checkpoint is a set of named sections. The trainer uses `trainer`, `weights`, `optimizer`,
/// `schedule`, `random`, `metrics` and the names that begin with `callback`. Hooks can add other
/// sections in [`on_save_checkpoint`](super::TrainModule::on_save_checkpoint) and read them in
/// [`on_load_checkpoint`](super::TrainModule::on_load_checkpoint).
///
/// The file format is safetensors. The weights keep their own names, so that any framework can also
/// load the file as plain weights.
///
/// # Examples
///
/// ```
/// use mlprof_train::Checkpoint;
///
/// let mut checkpoint = Checkpoint::default();
/// checkpoint.section_mut("tokenizer").set("vocabulary", 32_000);
/// let tokenizer = checkpoint.section("tokenizer").expect("just made");
/// assert_eq!(tokenizer.get::<usize>("vocabulary")?, 32_000);
/// # Ok::<(), mlprof_train::BoxError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Checkpoint {
    sections: BTreeMap<String, SavedState>,
}

impl Checkpoint {
    /// Returns the section of that name, or `None` if it does not exist.
    pub fn section(&self, name: &str) -> Option<&SavedState> {
        self.sections.get(name)
    }

    /// Returns the section of that name for changes, and creates it if it does not exist.
    pub fn section_mut(&mut self, name: &str) -> &mut SavedState {
        self.sections.entry(name.to_owned()).or_default()
    }

    /// Returns the epoch in which training resumes, counted from 0.
    ///
    /// # Errors
    ///
    /// Returns an error if a trainer did not write the checkpoint.
    pub fn epoch(&self) -> Result<usize> {
        self.required(TRAINER)?.get("epoch")
    }

    /// Returns the number of completed optimizer steps.
    ///
    /// # Errors
    ///
    /// Returns an error if a trainer did not write the checkpoint.
    pub fn global_step(&self) -> Result<usize> {
        self.required(TRAINER)?.get("global_step")
    }

    /// Returns the module's weights.
    ///
    /// # Errors
    ///
    /// Returns an error if the checkpoint has no weights.
    pub fn weights(&self) -> Result<&SavedState> {
        self.required(WEIGHTS)
    }

    /// Returns the section of that name, or an error with the name.
    pub(crate) fn required(&self, name: &str) -> Result<&SavedState> {
        self.section(name).ok_or_else(|| format!("it has no {name}").into())
    }
}
