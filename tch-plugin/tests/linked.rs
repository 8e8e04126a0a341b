//! Checks that linking with this crate is enough to record libtorch's ops.

use std::sync::Arc;

use mlprof_core::prelude::*;
use mlprof_core::tensor::GroupBy;
use mlprof_tch as _;
use tch::nn::{self, Module, OptimizerConfig};
use tch::{Device, Kind, Tensor};

const STEPS: usize = 4;

#[test]
fn a_loop_of_ones_own_has_ops() {
    let store = nn::VarStore::new(Device::Cpu);
    let layer = nn::linear(store.root(), 4, 3, Default::default());
    let mut optimizer = nn::Sgd::default().build(&store, 0.1).expect("built");
    let profiler = Arc::new(TensorProfiler::new().without_schedule());
    let active = activate(profiler.clone());
    for _ in 0..STEPS {
        let input = Tensor::ones([2, 4], (Kind::Float, Device::Cpu));
        let loss = layer.forward(&input).square().mean(Kind::Float);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        profiler.step();
    }
    profiler.teardown(None);
    drop(active);
    let rows = profiler.key_averages(&GroupBy::name()).rows;
    let calls = |name| rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls);
    assert_eq!(calls("aten::linear"), STEPS as u64);
    assert_eq!(calls("autograd::engine::evaluate_function: MeanBackward0"), STEPS as u64);
}
