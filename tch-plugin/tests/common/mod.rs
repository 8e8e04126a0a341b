//! A small network, its data, and serialisation of tests.

use mlprof_core::report::SimpleReport;
use mlprof_tch::prelude::*;
use tch::nn::{self, Module, Sequential, VarStore};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};

#[path = "../turn/mod.rs"]
mod turn;
pub use turn::turn;

/// Two layers, the first of which is profiled.
pub struct Net {
    pub store: VarStore,
    pub layers: Sequential,
    pub losses: Vec<f64>,
    pub learning_rate: f64,
}

impl Net {
    pub fn new() -> Self {
        let store = VarStore::new(Device::Cpu);
        let root = &store.root();
        let layers = nn::seq()
            .add(
                nn::linear(root / "hidden", 4, 8, Default::default())
                    .profile_layer(root / "hidden"),
            )
            .add_fn(|input| input.tanh())
            .add(nn::linear(root / "out", 8, 3, Default::default()));
        Self { store, layers, losses: Vec::new(), learning_rate: 0.1 }
    }

    /// Returns the bits of all weights.
    pub fn weights(&self) -> Vec<(String, Vec<u32>)> {
        let bits = |tensor: &Tensor| -> Vec<u32> {
            let values = Vec::<f32>::try_from(&tensor.flatten(0, -1)).expect("floats");
            values.iter().map(|value| value.to_bits()).collect()
        };
        let mut weights: Vec<_> = self
            .store
            .variables()
            .iter()
            .map(|(name, tensor)| (name.clone(), bits(tensor)))
            .collect();
        weights.sort();
        weights
    }

    pub fn loss(&self, (inputs, classes): &(Tensor, Tensor)) -> Tensor {
        self.layers.forward(inputs).cross_entropy_for_logits(classes)
    }
}

impl TrainModule for Net {
    type Batch = (Tensor, Tensor);
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        Ok(TchOptimizer::new(nn::Sgd::default(), &self.store, self.learning_rate)?.into())
    }

    fn training_step(&mut self, batch: &Self::Batch, _: &mut TrainerState) -> TrainResult<Tensor> {
        let loss = self.loss(batch);
        self.losses.push(loss.f_double_value(&[])?);
        Ok(loss)
    }

    fn validation_step(
        &mut self,
        batch: &Self::Batch,
        trainer: &mut TrainerState,
    ) -> TrainResult<()> {
        let loss = self.loss(batch).f_double_value(&[])?;
        trainer.log_with("val_loss", loss, &LogOptions::new().weight(batch.1.numel() as f64));
        Ok(())
    }
}

/// Returns `items` items with a learnable class.
pub fn data(items: i64) -> (Tensor, Tensor) {
    let inputs = Tensor::rand([items, 4], FLOAT_CPU);
    let classes = inputs.narrow(1, 0, 3).argmax(1, false).to_kind(Kind::Int64);
    (inputs, classes)
}

/// Returns the number of calls of an action, or 0 if it has no row.
pub fn calls(report: &SimpleReport, action: &str) -> u64 {
    report.actions.iter().find(|row| row.action == action).map_or(0, |row| row.calls)
}
