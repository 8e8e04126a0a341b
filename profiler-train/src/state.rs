//! What modules and callbacks see of a running trainer.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checkpoint::{Requests, ResumePoint};
use super::error::Place;
use super::outcome::StopReason;
use profiler_core::{Profiler, RunContext, Stage};

/// Where a run is, and what it has found so far: passed to every hook.
pub struct TrainerState {
    pub(super) profiler: Arc<dyn Profiler>,
    pub(super) run: RunContext,
    pub(super) seed: Option<u64>,
    pub(super) max_epochs: Option<usize>,
    pub(super) stage: Stage,
    pub(super) epoch: usize,
    pub(super) global_step: usize,
    pub(super) batch_index: Option<usize>,
    pub(super) num_batches: Option<usize>,
    pub(super) loss: Option<f64>,
    pub(super) learning_rate: Option<f64>,
    pub(super) stop: Option<StopReason>,
    pub(super) means: Means,
    pub(super) requests: Requests,
    /// Whether a fit runs, or an evaluation inside one.
    pub(super) is_fit: bool,
    pub(super) validates_once_per_epoch: bool,
    /// Asked for by a hook, and not done yet.
    pub(super) skips_epoch: bool,
    /// Where a checkpoint of now goes on.
    pub(super) resume_point: ResumePoint,
}

impl TrainerState {
    pub(super) fn new(
        profiler: Arc<dyn Profiler>,
        run: RunContext,
        seed: Option<u64>,
        max_epochs: Option<usize>,
        stage: Stage,
    ) -> Self {
        Self {
            profiler,
            run,
            seed,
            max_epochs,
            stage,
            epoch: 0,
            global_step: 0,
            batch_index: None,
            num_batches: None,
            loss: None,
            learning_rate: None,
            stop: None,
            means: Means::default(),
            requests: Requests::default(),
            is_fit: stage == Stage::Fit,
            validates_once_per_epoch: false,
            skips_epoch: false,
            resume_point: ResumePoint::default(),
        }
    }

    /// The trainer's profiler, for scopes inside a model.
    pub fn profiler(&self) -> &Arc<dyn Profiler> {
        &self.profiler
    }

    /// What is running: validation inside a fit is [`Stage::Validate`], its sanity check
    /// [`Stage::SanityCheck`].
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether a fit runs: also while it validates.
    pub fn is_fit(&self) -> bool {
        self.is_fit
    }

    /// Whether the trainer validates once at the end of each training epoch, which it does by
    /// default.
    pub fn validates_once_per_epoch(&self) -> bool {
        self.validates_once_per_epoch
    }

    /// The epoch, from 0.
    pub fn epoch(&self) -> usize {
        self.epoch
    }

    /// How many epochs there will be at most, if that was said.
    pub fn max_epochs(&self) -> Option<usize> {
        self.max_epochs
    }

    /// How many optimizer steps have been done.
    pub fn global_step(&self) -> usize {
        self.global_step
    }

    /// The batch of the running pass over the data, from 0; `None` outside of batches.
    pub fn batch_index(&self) -> Option<usize> {
        self.batch_index
    }

    /// How many batches the running pass over the data has, if its loader knows.
    pub fn num_batches(&self) -> Option<usize> {
        self.num_batches
    }

    /// The training loss that was read last. On an accelerator it is read only
    /// [now and then](super::Trainer::log_every_n_steps).
    pub fn loss(&self) -> Option<f64> {
        self.loss
    }

    /// The learning rate of the optimizer; `None` outside of training.
    pub fn learning_rate(&self) -> Option<f64> {
        self.learning_rate
    }

    /// The trainer's seed.
    pub fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// Rank and world size.
    pub fn run(&self) -> &RunContext {
        &self.run
    }

    /// Ends the fit after the batch that is running. The first reason counts.
    pub fn stop(&mut self, reason: impl Into<String>) {
        self.stop.get_or_insert_with(|| StopReason::Asked(reason.into()));
    }

    /// Adds `value` to the mean of the running pass over the data. The mean can be seen when the
    /// pass is over: by [`metric`](Self::metric), in the progress bar and in the outcome.
    pub fn log(&mut self, name: &str, value: f64) {
        self.log_weighted(name, value, 1.0);
    }

    /// [`log`](Self::log) for means over batches of different sizes: `weight` is the batch's size.
    pub fn log_weighted(&mut self, name: &str, value: f64, weight: f64) {
        self.means.add(name, value, weight);
    }

    /// The mean that was logged under this name, of the last pass that has ended.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.means.finished.get(name).copied()
    }

    /// All means of passes that have ended.
    pub fn metrics(&self) -> &BTreeMap<String, f64> {
        &self.means.finished
    }

    /// Sets a metric at once.
    pub(super) fn set_metric(&mut self, name: &str, value: f64) {
        self.means.finished.insert(name.to_owned(), value);
    }

    pub(super) fn place(&self) -> Place {
        Place { stage: self.stage, epoch: self.epoch, batch: self.batch_index }
    }
}

/// Means of the pass over data that is running, and those of passes that have ended. A validation
/// pass runs inside a training pass: they are a stack.
#[derive(Default, Clone)]
pub(super) struct Means {
    running: Vec<BTreeMap<String, (f64, f64)>>,
    pub(super) finished: BTreeMap<String, f64>,
}

impl Means {
    pub(super) fn begin(&mut self) {
        self.running.push(BTreeMap::new());
    }

    fn add(&mut self, name: &str, value: f64, weight: f64) {
        if self.running.is_empty() {
            self.begin();
        }
        let Some(pass) = self.running.last_mut() else { return };
        // Most calls find the name: no copy of it then.
        match pass.get_mut(name) {
            Some((sum, weights)) => {
                *sum += value * weight;
                *weights += weight;
            }
            None => {
                pass.insert(name.to_owned(), (value * weight, weight));
            }
        }
    }

    /// Ends the innermost pass; its means are kept unless they were only a trial.
    pub(super) fn end(&mut self, keep: bool) {
        let Some(pass) = self.running.pop() else { return };
        if keep {
            self.finished
                .extend(pass.into_iter().map(|(name, (sum, weight))| (name, sum / weight)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_weighted_and_passes_nest() {
        let mut means = Means::default();
        means.begin();
        means.add("loss", 1.0, 1.0);
        means.begin();
        means.add("accuracy", 1.0, 30.0);
        means.add("accuracy", 0.0, 10.0);
        means.end(true);
        means.add("loss", 3.0, 1.0);
        means.begin();
        means.add("accuracy", 0.0, 1.0);
        means.end(false);
        means.end(true);
        let finished: Vec<_> = means.finished.into_iter().collect();
        assert_eq!(finished, [("accuracy".to_owned(), 0.75), ("loss".to_owned(), 2.0)]);
    }
}
