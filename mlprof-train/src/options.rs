//! Settings of the trainer for trying a program, for ends and for validations.

use std::time::Duration;

use super::module::TrainModule;
use super::optimizer::GradientClipAlgorithm;
use super::portion::Portion;
use super::trainer::Trainer;

impl<M: TrainModule> Trainer<M> {
    /// Runs one epoch of `batches` batches of each loader, without sanity check and checkpoints, to
    /// find mistakes quickly. It takes the place of all settings that say otherwise.
    #[must_use]
    pub fn fast_dev_run(mut self, batches: usize) -> Self {
        self.settings.fast_dev_run = Some(batches);
        self
    }

    /// Uses that many batches, or this share of them, for training and for validation, and the same
    /// ones in every epoch: loaders receive epoch 0 each time. A model that cannot learn a few
    /// batches by heart has a mistake.
    #[must_use]
    pub fn overfit_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.overfit_batches = Some(limit.into());
        self
    }

    /// Number of epochs that are run even if something [asks for the
    /// end](super::TrainerState::stop); 0 by default.
    #[must_use]
    pub fn min_epochs(mut self, epochs: usize) -> Self {
        self.settings.min_epochs = Some(epochs);
        self
    }

    /// Number of optimizer steps that are done even if something
    /// [asks for the end](super::TrainerState::stop); 0 by default. As in Lightning, the first
    /// epoch is then run to its end unless [`min_epochs`](Self::min_epochs) is set.
    #[must_use]
    pub fn min_steps(mut self, steps: usize) -> Self {
        self.settings.min_steps = steps;
        self
    }

    /// Ends the fit after this time, with the running batch and a validation, but not before
    /// [`min_epochs`](Self::min_epochs) and [`min_steps`](Self::min_steps). There is then no limit
    /// to the epochs unless [`max_epochs`](Self::max_epochs) sets one.
    #[must_use]
    pub fn max_time(mut self, time: Duration) -> Self {
        self.settings.max_time = Some(time);
        self
    }

    /// Validates in every `epochs`-th epoch only; 1 by default. With `None`,
    /// [`val_check_interval`](Self::val_check_interval) counts the batches of all epochs together.
    #[must_use]
    pub fn check_val_every_n_epoch(mut self, epochs: impl Into<Option<usize>>) -> Self {
        self.settings.check_val_every_n_epoch = epochs.into();
        self
    }

    /// Number of validation batches that are run before training; 2 by default, 0 for none, -1 for
    /// all.
    #[must_use]
    pub fn num_sanity_val_steps(mut self, steps: isize) -> Self {
        self.settings.num_sanity_val_steps = usize::try_from(steps).ok();
        self
    }

    /// Sets whether [`gradient_clip_val`](Self::gradient_clip_val) is the largest norm of all
    /// gradients together (the default) or the largest absolute value of each element.
    #[must_use]
    pub fn gradient_clip_algorithm(mut self, algorithm: GradientClipAlgorithm) -> Self {
        self.settings.gradient_clip_algorithm = algorithm;
        self
    }
}
