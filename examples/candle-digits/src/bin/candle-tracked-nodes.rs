//! Counts the nodes of candle's own computation graph for a forward pass, for comparison with the
//! ops that `mlprof run --ops candle` records.
//!
//! `cargo run --release -p candle-digits --bin candle-tracked-nodes`

use std::error::Error;

use candle_core::{DType, Device, Module, Tensor, Var};
use candle_digits::{Batch, DigitNet};
use candle_nn::{RmsNorm, VarMap};
use digits::{Splits, splits};
use mlprof_candle::prelude::*;
use mlprof_core::profile;

const SEED: u64 = 42;
const BATCH_SIZE: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let vars = VarMap::new();
    let net = DigitNet::new(&seeded_var_builder(&vars, SEED, DType::F32, &Device::Cpu))?;
    let Splits { train, .. } = splits(SEED)?;
    let batch = Batch::new(&train[..BATCH_SIZE])?;
    // The input is a variable too, so that candle records every operation on it.
    let batch = Batch { images: Var::from_tensor(&batch.images)?.into_inner(), ..batch };
    let loss = {
        let _scope = profile!("counted_forward");
        net.loss(&batch)?
    };
    let nodes = loss.sorted_nodes().into_iter().filter(|node| !node.is_variable()).count();
    println!("{nodes} tracked nodes");
    {
        let _scope = profile!("counted_backward");
        loss.backward()?;
    }
    // This layer is a custom op in candle, for which candle records no graph.
    let rows = Tensor::ones((BATCH_SIZE, 64), DType::F32, &Device::Cpu)?;
    let norm = RmsNorm::new(Tensor::ones(64, DType::F32, &Device::Cpu)?, 1e-5);
    let _scope = profile!("rms_norm_layer");
    norm.forward(&rows)?;
    Ok(())
}
