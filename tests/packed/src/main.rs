//! Trains one layer under a profiler with a single mlprof package as dependency.

use candle_core::{DType, Device, Module, Tensor};
use candle_nn::{AdamW, Linear, ParamsAdamW, VarMap, linear, loss::mse};
use mlprof_candle::prelude::*;

/// Learns y = 2x + 1.
struct Line {
    vars: VarMap,
    layer: ProfiledLayer<Linear>,
}

fn squared_error(line: &Line, (x, y): &(Tensor, Tensor)) -> TrainResult<Tensor> {
    let _scope = profile!("squared_error");
    Ok(mse(&line.layer.forward(x)?, y)?)
}

impl TrainModule for Line {
    type Batch = (Tensor, Tensor);
    type Optimizer = CandleOptimizer<AdamW>;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<Self::Optimizer>> {
        let config = ParamsAdamW { lr: 0.1, ..Default::default() };
        Ok(CandleOptimizer::new(vars_by_name(&self.vars), config)?.into())
    }

    fn training_step(&mut self, batch: &Self::Batch, _: &mut TrainerState) -> TrainResult<Tensor> {
        squared_error(self, batch)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let vars = VarMap::new();
    let vb = seeded_var_builder(&vars, 42, DType::F32, &Device::Cpu);
    let layer = vb.pp("layer").profile_layer(|vb| linear(1, 1, vb))?;
    let mut line = Line { vars, layer };
    let x = Tensor::from_vec(vec![-1f32, 0., 1., 2.], (4, 1), &Device::Cpu)?;
    let batches = vec![(x.clone(), ((x * 2.)? + 1.)?); 5];
    Trainer::new().max_epochs(2).profiler("simple").fit(&mut line, &batches, None)?;
    Ok(())
}
