//! A network with very little computation.

use mlprof_tch::prelude::*;
use tch::nn::{self, Module};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};

/// Three tiny layers with their data and their optimizer.
pub struct Tiny {
    layers: nn::Sequential,
    optimizer: TchOptimizer,
    inputs: Tensor,
    classes: Tensor,
}

impl Tiny {
    /// Creates a network and runs several warm-up steps.
    pub fn warm() -> TrainResult<Self> {
        let store = nn::VarStore::new(Device::Cpu);
        let root = &store.root();
        let layers = nn::seq()
            .add(nn::linear(root / "first", 8, 16, Default::default()))
            .add_fn(|input| input.relu())
            .add(nn::linear(root / "second", 16, 16, Default::default()))
            .add_fn(|input| input.gelu("none"))
            .add(nn::linear(root / "out", 16, 3, Default::default()));
        let mut net = Self {
            layers,
            optimizer: TchOptimizer::new(nn::AdamW::default(), &store, 1e-3)?,
            inputs: Tensor::rand([4, 8], FLOAT_CPU),
            classes: Tensor::arange(4, (Kind::Int64, Device::Cpu)).remainder(3),
        };
        net.steps(100)?;
        Ok(net)
    }

    /// Runs `steps` training steps.
    pub fn steps(&mut self, steps: usize) -> TrainResult<()> {
        for _ in 0..steps {
            self.optimizer.zero_grad()?;
            let scores = self.layers.forward(&self.inputs);
            let loss = scores.cross_entropy_for_logits(&self.classes);
            self.optimizer.backward(&loss, 1.0)?;
            self.optimizer.step()?;
        }
        Ok(())
    }
}
