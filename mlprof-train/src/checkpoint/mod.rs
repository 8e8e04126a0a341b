//! Checkpoints: a training as it was at one point, to go on from there.

mod file;

use std::collections::BTreeMap;

use super::error::Result;
use super::saved_state::SavedState;

/// Version of the format.
pub(crate) const VERSION: u32 = 1;
/// Section of the loop: epoch, batch, step, seed.
pub(crate) const TRAINER: &str = "trainer";
/// Section of the module's weights.
pub(crate) const WEIGHTS: &str = "weights";
/// Section of the optimizer.
pub(crate) const OPTIMIZER: &str = "optimizer";
/// Section of a learning rate schedule that follows a metric.
pub(crate) const SCHEDULE: &str = "schedule";
/// Section of the framework's random number generators.
pub(crate) const RANDOM: &str = "random";
/// Section of the means of passes that have ended.
pub(crate) const METRICS: &str = "metrics";

/// A training at one point: the module's weights, and the state of optimizer, loop and callbacks.
///
/// It is a set of sections by name. `trainer`, `weights`, `optimizer`, `schedule`, `random`, `metrics` and those
/// that begin with `callback` are the trainer's; hooks can add others in
/// [`on_save_checkpoint`](super::TrainModule::on_save_checkpoint) and read them in
/// [`on_load_checkpoint`](super::TrainModule::on_load_checkpoint).
///
/// A file of it is a safetensors file. The weights have their own names there, so that it can also
/// be loaded as plain weights, by any framework.
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
    /// Returns a section, `None` if there is none of that name.
    pub fn section(&self, name: &str) -> Option<&SavedState> {
        self.sections.get(name)
    }

    /// Returns a section to be changed; makes it if there is none of that name.
    pub fn section_mut(&mut self, name: &str) -> &mut SavedState {
        self.sections.entry(name.to_owned()).or_default()
    }

    /// Returns the epoch, from 0, in which training goes on.
    ///
    /// # Errors
    ///
    /// If it is not a checkpoint of a trainer.
    pub fn epoch(&self) -> Result<usize> {
        self.required(TRAINER)?.get("epoch")
    }

    /// Returns the number of optimizer steps that have been done.
    ///
    /// # Errors
    ///
    /// If it is not a checkpoint of a trainer.
    pub fn global_step(&self) -> Result<usize> {
        self.required(TRAINER)?.get("global_step")
    }

    /// Returns the module's weights.
    ///
    /// # Errors
    ///
    /// If it has none.
    pub fn weights(&self) -> Result<&SavedState> {
        self.required(WEIGHTS)
    }

    /// Returns a section, or an error that names it.
    pub(crate) fn required(&self, name: &str) -> Result<&SavedState> {
        self.section(name).ok_or_else(|| format!("it has no {name}").into())
    }
}
