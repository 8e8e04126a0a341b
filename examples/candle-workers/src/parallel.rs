//! A network that several processes train together.

use std::error::Error;

use candle_core::{DType, Device, Tensor, Var};
use candle_digits::{Batch, DigitNet};
use candle_nn::{AdamW, ParamsAdamW, VarMap};
use mlprof_candle::prelude::*;
use mlprof_train::Result;
use parallel_training::{ParallelModule, Rank};

const LEARNING_RATE: f64 = 2e-3;

/// The network of one process. It starts from the weights of rank 0. Each step uses the mean
/// gradients of all processes, so the weights stay the same in all of them.
#[expect(missing_debug_implementations, reason = "VarMap has none")]
pub struct ParallelLearner {
    vars: VarMap,
    net: DigitNet,
    rank: Rank,
}

impl ParallelLearner {
    /// Creates a network whose weights are determined by `seed`.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn new(seed: u64, rank: Rank) -> candle_core::Result<Self> {
        let vars = VarMap::new();
        let net = DigitNet::new(&seeded_var_builder(&vars, seed, DType::F32, &Device::Cpu))?;
        Ok(Self { vars, net, rank })
    }
}

impl ParallelModule for ParallelLearner {
    fn check_weights(&mut self) -> std::result::Result<(), Box<dyn Error>> {
        let weights = flat(vars_by_name(&self.vars).iter().map(Var::as_tensor))?;
        Ok(self.rank.check_equal(&weights)?)
    }
}

impl TrainModule for ParallelLearner {
    type Batch = Batch;
    type Optimizer = CandleOptimizer<AdamW>;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Self::Optimizer>> {
        let config = ParamsAdamW { lr: LEARNING_RATE, ..ParamsAdamW::default() };
        Ok(CandleOptimizer::new(vars_by_name(&self.vars), config)?.into())
    }

    fn on_fit_start(&mut self, _trainer: &mut TrainerState) -> Result<()> {
        let vars = vars_by_name(&self.vars);
        let mut weights = flat(vars.iter().map(Var::as_tensor))?;
        self.rank.broadcast(&mut weights)?;
        let mut rest = &weights[..];
        for var in &vars {
            var.set(&next_tensor(&mut rest, var)?)?;
        }
        Ok(())
    }

    fn training_step(&mut self, batch: &Batch, _trainer: &mut TrainerState) -> Result<Tensor> {
        self.rank.before_forward();
        Ok(self.net.loss(batch)?)
    }

    fn on_after_backward(
        &mut self,
        optimizer: &mut Self::Optimizer,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        self.rank.average_gradients(|group| {
            let mut gradients = flat(optimizer.gradients().map(|(_, gradient)| gradient))?;
            group.all_reduce_mean(&mut gradients)?;
            let mut rest = &gradients[..];
            Ok(optimizer.map_gradients(|_, gradient| next_tensor(&mut rest, gradient))?)
        })
    }

    fn on_train_batch_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        self.rank.after_step(trainer.global_step());
        Ok(())
    }

    fn test_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> Result<()> {
        let (loss, accuracy) = self.net.judge(batch)?;
        let weight = batch.size()? as f64;
        let weighted = LogOptions::new().weight(weight);
        trainer.log_with("test_loss", loss, &weighted);
        trainer.log_with("test_accuracy", accuracy, &weighted);
        Ok(())
    }
}

/// Returns the concatenated numbers of several tensors.
fn flat<'tensor>(tensors: impl Iterator<Item = &'tensor Tensor>) -> candle_core::Result<Vec<f32>> {
    let mut values = Vec::new();
    for tensor in tensors {
        values.extend(tensor.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(values)
}

/// Removes a tensor with the shape of `like` from the front of `values`.
fn next_tensor(values: &mut &[f32], like: &Tensor) -> candle_core::Result<Tensor> {
    let (own, rest) = values.split_at(like.elem_count());
    *values = rest;
    Tensor::from_slice(own, like.shape(), like.device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_taken_apart_and_put_together() -> candle_core::Result<()> {
        let tensors = [
            Tensor::new(&[[1f32, 2., 3.], [4., 5., 6.]], &Device::Cpu)?,
            Tensor::new(7f32, &Device::Cpu)?,
            Tensor::new(&[8f32, 9.], &Device::Cpu)?,
        ];
        let values = flat(tensors.iter())?;
        assert_eq!(values, [1., 2., 3., 4., 5., 6., 7., 8., 9.]);
        let mut rest = &values[..];
        for tensor in &tensors {
            let again = next_tensor(&mut rest, tensor)?;
            assert_eq!(again.dims(), tensor.dims());
            assert_eq!(flat([&again].into_iter())?, flat([tensor].into_iter())?);
        }
        assert!(rest.is_empty());
        Ok(())
    }
}
