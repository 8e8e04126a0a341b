//! Learns y = 2x + 1 with tch, and prints where the time went:
//! `cargo xtask run mlprof-tch --example tch`

use mlprof_tch::prelude::*;
use tch::nn::{self, Adam, Linear, Module, VarStore};
use tch::{Device, Reduction, Tensor};

struct Line {
    vars: VarStore,
    layer: ProfiledLayer<Linear>,
}

impl TrainModule for Line {
    type Batch = (Tensor, Tensor);
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<Self::Optimizer>> {
        Ok(TchOptimizer::new(Adam::default(), &self.vars, 0.1)?.into())
    }

    fn training_step(&mut self, (x, y): &Self::Batch, _: &mut TrainerState) -> TrainResult<Tensor> {
        Ok(self.layer.forward(x).mse_loss(y, Reduction::Mean))
    }
}

fn main() -> TrainResult<()> {
    tch::manual_seed(42);
    let vars = VarStore::new(Device::Cpu);
    let path = vars.root() / "layer";
    // Each forward pass of the layer becomes a row `[module]Linear: layer`.
    let layer = nn::linear(&path, 1, 1, Default::default()).profile_layer(&path);

    let x = Tensor::from_slice(&[-1f32, 0., 1., 2.]).view([4, 1]);
    let y = &x * 2. + 1.;
    // A loader makes an iterator for each epoch, because tensors of tch cannot be cloned.
    let batches = |_: &EpochContext| (0..100).map(|_| (x.shallow_clone(), y.shallow_clone()));

    // The profiler is one setting of the trainer: a name, a profiler, or several joined by `+`.
    let mut trainer = Trainer::new().max_epochs(3).profiler("simple");
    trainer.fit(&mut Line { vars, layer }, &batches, None)?;
    Ok(())
}
