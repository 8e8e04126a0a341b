//! Checks the same as `linked.rs`, for a program that uses one trait of this crate.

use std::sync::Arc;

use mlprof_core::prelude::*;
use mlprof_core::tensor::GroupBy;
use mlprof_tch::prelude::ProfileBackwardExt;
use tch::{Device, Kind, Tensor};

#[test]
fn a_loop_with_profile_backward_has_ops() {
    let weight = Tensor::ones([3, 3], (Kind::Float, Device::Cpu)).set_requires_grad(true);
    let profiler = Arc::new(TensorProfiler::new().without_schedule());
    let active = activate(profiler.clone());
    for _ in 0..3 {
        weight.matmul(&weight).sum(Kind::Float).profile_backward();
        profiler.step();
    }
    profiler.teardown(None);
    drop(active);
    let rows = profiler.key_averages(&GroupBy::name()).rows;
    let calls = |name| rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls);
    assert_eq!(calls("backward"), 3);
    assert_eq!(calls("aten::matmul"), 3);
    assert_eq!(calls("autograd::engine::evaluate_function: MmBackward0"), 3);
}
