//! The network, trained by several processes together.

use std::error::Error;

use mlprof_tch::prelude::*;
use parallel_training::{ParallelModule, Rank};
use tch::nn;
use tch::{Device, Tensor, no_grad};

use crate::{Batch, LEARNING_RATE, Learner};

/// The network of one process. It starts from the weights of rank 0. Each step uses the mean
/// gradients of all processes, so the weights stay the same in all of them.
#[derive(Debug)]
pub struct ParallelLearner {
    inner: Learner,
    rank: Rank,
}

impl ParallelLearner {
    /// Creates a network whose weights are determined by `seed`.
    pub fn new(seed: u64, rank: Rank) -> Self {
        Self { inner: Learner::new(seed, Device::Cpu), rank }
    }
}

impl ParallelModule for ParallelLearner {
    fn check_weights(&mut self) -> Result<(), Box<dyn Error>> {
        Ok(self.rank.check_equal(&flat(&self.inner.variables.trainable_variables())?)?)
    }
}

impl TrainModule for ParallelLearner {
    type Batch = Batch;
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        Ok(TchOptimizer::new(nn::Adam::default(), &self.inner.variables, LEARNING_RATE)?.into())
    }

    fn on_fit_start(&mut self, _trainer: &mut TrainerState) -> TrainResult<()> {
        let mut variables = self.inner.variables.trainable_variables();
        let mut weights = flat(&variables)?;
        self.rank.broadcast(&mut weights)?;
        fill(&mut variables, &weights);
        Ok(())
    }

    fn training_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<Tensor> {
        self.rank.before_forward();
        self.inner.training_step(batch, trainer)
    }

    fn on_after_backward(
        &mut self,
        _optimizer: &mut TchOptimizer,
        _trainer: &mut TrainerState,
    ) -> TrainResult<()> {
        let variables = self.inner.variables.trainable_variables();
        self.rank.average_gradients(|group| {
            let mut gradients: Vec<Tensor> = variables.iter().map(Tensor::grad).collect();
            let mut numbers = flat(&gradients)?;
            group.all_reduce_mean(&mut numbers)?;
            fill(&mut gradients, &numbers);
            Ok(())
        })
    }

    fn on_train_batch_end(&mut self, trainer: &mut TrainerState) -> TrainResult<()> {
        self.rank.after_step(trainer.global_step());
        Ok(())
    }

    fn test_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        self.inner.test_step(batch, trainer)
    }
}

/// Returns the concatenated numbers of several tensors.
fn flat(tensors: &[Tensor]) -> Result<Vec<f32>, tch::TchError> {
    let flat: Vec<Tensor> = tensors.iter().map(|tensor| tensor.detach().reshape([-1])).collect();
    Vec::try_from(Tensor::f_cat(&flat, 0)?)
}

/// Fills the tensors with the numbers that [`flat`] returned.
fn fill(tensors: &mut [Tensor], mut numbers: &[f32]) {
    no_grad(|| {
        for tensor in tensors {
            let (own, rest) = numbers.split_at(tensor.numel());
            numbers = rest;
            tensor.copy_(&Tensor::from_slice(own).view_as(tensor));
        }
    });
}
