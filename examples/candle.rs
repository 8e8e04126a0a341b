//! Learns y = 2x + 1 with candle, and prints where the time went:
//! `cargo run --release -p mlprof-candle --example candle`

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Linear, ParamsAdamW, VarMap, linear, loss::mse};
use mlprof_candle::prelude::*;

struct Line {
    vars: VarMap,
    layer: ProfiledLayer<Linear>,
}

impl TrainModule for Line {
    type Batch = (Tensor, Tensor);
    type Optimizer = CandleOptimizer<AdamW>;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<Self::Optimizer>> {
        let config = ParamsAdamW { lr: 0.1, ..Default::default() };
        Ok(CandleOptimizer::new(vars_by_name(&self.vars), config)?.into())
    }

    fn training_step(&mut self, (x, y): &Self::Batch, _: &mut TrainerState) -> TrainResult<Tensor> {
        Ok(mse(&self.layer.forward(x)?, y)?)
    }
}

fn main() -> TrainResult<()> {
    let vars = VarMap::new();
    let builder = seeded_var_builder(&vars, 42, DType::F32, &Device::Cpu);
    // Each forward pass of the layer becomes a row `[module]Linear: layer`.
    let layer = builder.pp("layer").profile_layer(|builder| linear(1, 1, builder))?;

    let x = Tensor::from_vec(vec![-1f32, 0., 1., 2.], (4, 1), &Device::Cpu)?;
    let y = ((&x * 2.)? + 1.)?;
    let batches = vec![(x, y); 100];

    // The profiler is one setting of the trainer: a name, a profiler, or several joined by `+`.
    let mut trainer = Trainer::new().max_epochs(3).profiler("simple");
    trainer.fit(&mut Line { vars, layer }, &batches, None)?;
    Ok(())
}
