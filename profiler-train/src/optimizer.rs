//! What the loop needs of a framework: how gradients are made and applied.

use super::error::Result;
use super::saved_state::SavedState;

/// The door between the loop and one framework. Plugins implement it for the optimizers of theirs.
///
/// The loop measures every call; an implementation need not.
pub trait TrainOptimizer {
    /// What a training step returns and backward starts from: a tensor of one element.
    type Loss;

    /// The loss as a number. On an accelerator this waits until the device has computed it.
    ///
    /// # Errors
    ///
    /// What the framework says, such as a loss of more than one element.
    fn loss_value(&self, loss: &Self::Loss) -> Result<f64>;

    /// Whether [`loss_value`](Self::loss_value) waits for a device. The loop then reads the loss
    /// only every [`log_every_n_steps`](super::Trainer::log_every_n_steps) steps, so as not to
    /// hold the device up; on a CPU it reads every one.
    fn reading_waits(&self, loss: &Self::Loss) -> bool {
        let _ = loss;
        false
    }

    /// Forgets all gradients.
    ///
    /// # Errors
    ///
    /// What the framework says.
    fn zero_grad(&mut self) -> Result<()>;

    /// Adds the gradients of `loss · scale` to those that are there.
    ///
    /// # Errors
    ///
    /// What the framework says.
    fn backward(&mut self, loss: &Self::Loss, scale: f64) -> Result<()>;

    /// Scales all gradients together so that their norm (the root of the sum of squares over all
    /// parameters) is at most `max_norm`.
    ///
    /// # Errors
    ///
    /// What the framework says.
    fn clip_gradients(&mut self, max_norm: f64) -> Result<()>;

    /// Moves the parameters along the gradients.
    ///
    /// # Errors
    ///
    /// What the framework says.
    fn step(&mut self) -> Result<()>;

    /// Returns the state that a checkpoint keeps, such as the moments of each parameter.
    ///
    /// # Errors
    ///
    /// The reason if the state cannot be read. A checkpoint then has weights alone, and training
    /// cannot be resumed from it. That is the default.
    fn state(&self) -> Result<SavedState> {
        Err("its type does not implement TrainOptimizer::state".into())
    }

    /// Restores what [`state`](Self::state) returned of an optimizer of the same model.
    ///
    /// # Errors
    ///
    /// If it is the state of another optimizer or model. Nothing has changed then: an implementation
    /// checks everything first.
    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        let _ = state;
        Err("the optimizer does not implement TrainOptimizer::load_state".into())
    }

    /// The learning rate.
    fn learning_rate(&self) -> f64;

    /// Sets the learning rate.
    ///
    /// # Errors
    ///
    /// What the framework says.
    fn set_learning_rate(&mut self, learning_rate: f64) -> Result<()>;
}

/// How often a learning rate schedule moves on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LrInterval {
    /// After every epoch, as in Lightning unless told otherwise.
    #[default]
    Epoch,
    /// After every optimizer step.
    Step,
}

type Schedule = Box<dyn FnMut(usize) -> f64>;

/// An optimizer, and a learning rate schedule if there is one: what
/// [`configure_optimizers`](super::TrainModule::configure_optimizers) returns.
///
/// An optimizer alone becomes one by `.into()`.
pub struct Optimizers<O> {
    pub(super) optimizer: O,
    pub(super) schedule: Option<(LrInterval, Schedule)>,
}

impl<O> Optimizers<O> {
    /// This optimizer, at the learning rate that it has.
    pub fn new(optimizer: O) -> Self {
        Self { optimizer, schedule: None }
    }

    /// Sets the learning rate after every epoch or step to what `schedule` says. Its argument is
    /// how many epochs or optimizer steps have been done, from 1.
    #[must_use]
    pub fn lr_scheduler(
        mut self,
        interval: LrInterval,
        schedule: impl FnMut(usize) -> f64 + 'static,
    ) -> Self {
        self.schedule = Some((interval, Box::new(schedule)));
        self
    }
}

impl<O: TrainOptimizer> From<O> for Optimizers<O> {
    fn from(optimizer: O) -> Self {
        Self::new(optimizer)
    }
}
