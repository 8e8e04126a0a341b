//! Trainer settings for trial runs, for the end of a fit, and for validations.

use std::time::Duration;

use super::module::TrainModule;
use super::optimizer::GradientClipAlgorithm;
use super::portion::Portion;
use super::trainer::Trainer;

impl<M: TrainModule> Trainer<M> {
    /// Runs one epoch with `batches` batches of each loader, without sanity check and checkpoints,
    /// to find mistakes quickly. It overrides all conflicting settings.
    #[must_use]
    pub fn fast_dev_run(mut self, batches: usize) -> Self {
        self.settings.fast_dev_run = Some(batches);
        self
    }

    /// Uses the given number or share of batches for training and validation, and the same ones in
    /// every epoch. Loaders receive epoch 0 each time. If a model cannot learn a few batches by
    /// heart, it has a mistake.
    #[must_use]
    pub fn overfit_batches(mut self, limit: impl Into<Portion>) -> Self {
        self.settings.overfit_batches = Some(limit.into());
        self
    }

    /// Sets the number of epochs that are run even if something [requests the
    /// end](super::TrainerState::stop). The default is 0.
    #[must_use]
    pub fn min_epochs(mut self, epochs: usize) -> Self {
        self.settings.min_epochs = Some(epochs);
        self
    }

    /// Sets the number of optimizer steps that are done even if something [requests the
    /// end](super::TrainerState::stop). The default is 0. As in Lightning, the first epoch then
    /// runs to its end, unless [`min_epochs`](Self::min_epochs) is set.
    #[must_use]
    pub fn min_steps(mut self, steps: usize) -> Self {
        self.settings.min_steps = steps;
        self
    }

    /// Ends the fit after `time`, when the running batch and a validation are done. The fit does
    /// not end before [`min_epochs`](Self::min_epochs) and [`min_steps`](Self::min_steps) are
    /// reached. The number of epochs is then unlimited, unless [`max_epochs`](Self::max_epochs)
    /// sets a limit.
    #[must_use]
    pub fn max_time(mut self, time: Duration) -> Self {
        self.settings.max_time = Some(time);
        self
    }

    /// Validates only in every `epochs`-th epoch. The default is 1. With `None`,
    /// [`val_check_interval`](Self::val_check_interval) counts the batches of all epochs together.
    #[must_use]
    pub fn check_val_every_n_epoch(mut self, epochs: impl Into<Option<usize>>) -> Self {
        self.settings.check_val_every_n_epoch = epochs.into();
        self
    }

    /// Sets the number of validation batches to run before training. The default is 2; 0 runs none
    /// and -1 runs all.
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
