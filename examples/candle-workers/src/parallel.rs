//! A network that several processes train together.

use std::thread;
use std::time::Duration;

use candle_core::{DType, Device, Tensor, Var};
use candle_digits::{Batch, DigitNet};
use candle_nn::{AdamW, ParamsAdamW, VarMap};
use candle_plugin::prelude::*;
use profiler_core::profile_collective;
use profiler_train::Result;

use crate::process_group::ProcessGroup;

const LEARNING_RATE: f64 = 2e-3;

/// The network of one process. It starts from the weights of rank 0, and takes every step along the
/// mean of all processes' gradients, so that it stays the same in all of them.
pub struct ParallelLearner {
    vars: VarMap,
    net: DigitNet,
    group: ProcessGroup,
    /// How often gradients were averaged, by which all ranks know one such meeting from the next.
    averaged: u64,
    /// The step after which this process is to end suddenly.
    lost_after: Option<usize>,
    /// How much longer each forward is to take.
    slow_by: Duration,
}

impl ParallelLearner {
    /// A network whose weights the seed repeats.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn new(seed: u64, group: ProcessGroup) -> candle_core::Result<Self> {
        let vars = VarMap::new();
        let net = DigitNet::new(&seeded_var_builder(&vars, seed, DType::F32, &Device::Cpu))?;
        Ok(Self { vars, net, group, averaged: 0, lost_after: None, slow_by: Duration::ZERO })
    }

    /// Ends this process after so many steps without a word, to show what the others do then.
    #[must_use]
    pub fn lost_after(mut self, steps: Option<usize>) -> Self {
        self.lost_after = steps;
        self
    }

    /// Has each forward take so much longer, as on a slower machine, to show who is then waited for.
    #[must_use]
    pub fn slow_by(mut self, time: Duration) -> Self {
        self.slow_by = time;
        self
    }

    /// Makes sure that all processes have the same weights, to the last bit.
    ///
    /// # Errors
    ///
    /// Which rank differs, or is lost.
    pub fn check_weights(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let weights = flat(vars_by_name(&self.vars).iter().map(Var::as_tensor))?;
        Ok(self.group.check_equal(checksum(&weights))?)
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
        self.group.broadcast(&mut weights)?;
        let mut rest = &weights[..];
        for var in &vars {
            var.set(&next_tensor(&mut rest, var)?)?;
        }
        Ok(())
    }

    fn training_step(&mut self, batch: &Batch, _trainer: &mut TrainerState) -> Result<Tensor> {
        if !self.slow_by.is_zero() {
            thread::sleep(self.slow_by);
        }
        Ok(self.net.loss(batch)?)
    }

    fn on_after_backward(
        &mut self,
        optimizer: &mut Self::Optimizer,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        let _scope = profile_collective!("all_reduce_gradients", self.averaged);
        self.averaged += 1;
        let mut gradients = flat(optimizer.gradients().map(|(_, gradient)| gradient))?;
        self.group.all_reduce_mean(&mut gradients)?;
        let mut rest = &gradients[..];
        Ok(optimizer.map_gradients(|_, gradient| next_tensor(&mut rest, gradient))?)
    }

    fn on_train_batch_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        if self.lost_after.is_some_and(|steps| trainer.global_step() >= steps) {
            std::process::exit(70);
        }
        Ok(())
    }

    fn test_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> Result<()> {
        let (loss, accuracy) = self.net.judge(batch)?;
        let weight = batch.size()? as f64;
        trainer.log_weighted("test_loss", loss, weight);
        trainer.log_weighted("test_accuracy", accuracy, weight);
        Ok(())
    }
}

/// All numbers of some tensors, one tensor after the other.
fn flat<'tensor>(tensors: impl Iterator<Item = &'tensor Tensor>) -> candle_core::Result<Vec<f32>> {
    let mut values = Vec::new();
    for tensor in tensors {
        values.extend(tensor.flatten_all()?.to_vec1::<f32>()?);
    }
    Ok(values)
}

/// Takes a tensor of the shape of `like` from the front of `values`.
fn next_tensor(values: &mut &[f32], like: &Tensor) -> candle_core::Result<Tensor> {
    let (own, rest) = values.split_at(like.elem_count());
    *values = rest;
    Tensor::from_slice(own, like.shape(), like.device())
}

/// FNV-1a over every bit of the numbers.
fn checksum(values: &[f32]) -> u64 {
    values.iter().flat_map(|value| value.to_le_bytes()).fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
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

    #[test]
    fn a_checksum_sees_every_bit_and_the_order() {
        let all = [1.0, 2.0, -0.0];
        assert_eq!(checksum(&all), checksum(&all));
        assert_ne!(checksum(&all), checksum(&[1.0, 2.0, 0.0]));
        assert_ne!(checksum(&all), checksum(&[2.0, 1.0, -0.0]));
        assert_ne!(checksum(&all), checksum(&[1.0f32.next_up(), 2.0, -0.0]));
    }
}
