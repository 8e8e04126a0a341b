//! Tests of hand-written loops under the active profiler.

mod common;

use std::sync::Arc;

use common::{Net, calls, data, turn};
use mlprof_core::SimpleProfiler;
use mlprof_tch::prelude::*;
use tch::nn::{self, Module, ModuleT, OptimizerConfig, RNN};
use tch::{Device, Tensor, kind::FLOAT_CPU};

/// Runs `work` under an active profiler and returns the number of calls of each of `actions`.
fn measured<const N: usize>(actions: [&str; N], work: impl FnOnce()) -> [u64; N] {
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    work();
    drop(active);
    let report = profiler.snapshot();
    actions.map(|action| calls(&report, action))
}

const ACTIONS: [&str; 4] =
    ["optimizer_zero_grad", "backward", "configure_gradient_clipping", "Optimizer.step"];

#[test]
fn a_profiled_optimizer_moves_weights_to_the_same_bits() {
    let _turn = turn();
    let batches: Vec<_> = (0..3).map(|_| data(16)).collect();
    let start = Net::new();
    let again = || {
        let mut net = Net::new();
        net.store.copy(&start.store).expect("the same variables");
        net
    };
    let plain = again();
    let mut optimizer = nn::Adam::default().build(&plain.store, 0.01).expect("valid");
    optimizer.backward_step(&plain.loss(&batches[0]));
    optimizer.backward_step_clip(&plain.loss(&batches[1]), 0.01);
    optimizer.backward_step_clip_norm(&plain.loss(&batches[2]), 0.01);
    optimizer.set_lr(0.5);
    optimizer.zero_grad();
    plain.loss(&batches[0]).backward();
    optimizer.clip_grad_norm(0.1);
    optimizer.clip_grad_value(0.01);
    optimizer.step();

    for is_active in [false, true] {
        let net = again();
        let mut optimizer = nn::Adam::default()
            .build(&net.store, 0.01)
            .expect("valid")
            .profile_optimizer()
            .synchronize(true);
        let mut work = || {
            optimizer.backward_step(&net.loss(&batches[0]));
            optimizer.backward_step_clip(&net.loss(&batches[1]), 0.01);
            optimizer.backward_step_clip_norm(&net.loss(&batches[2]), 0.01);
            optimizer.set_lr(0.5); // a method of the wrapped optimizer
            optimizer.zero_grad();
            net.loss(&batches[0]).profile_backward();
            optimizer.clip_grad_norm(0.1);
            optimizer.clip_grad_value(0.01);
            optimizer.step();
        };
        if is_active {
            assert_eq!(measured(ACTIONS, work), [4, 4, 4, 4]);
        } else {
            work();
        }
        assert_eq!(net.weights(), plain.weights());
    }
    assert_ne!(start.weights(), plain.weights(), "it learned");
}

#[test]
fn backward_gives_torchs_error_back() {
    let _turn = turn();
    let several = Tensor::ones([3], FLOAT_CPU).set_requires_grad(true) * 2.0;
    let [_, backward, ..] = measured(ACTIONS, || {
        assert!(several.f_profile_backward().is_err());
        several.sum(tch::Kind::Float).f_profile_backward().expect("a scalar");
    });
    assert_eq!(backward, 2, "a failed one, too");
}

#[test]
fn layers_are_rows_wherever_they_are_built_in() {
    let _turn = turn();
    let store = nn::VarStore::new(Device::Cpu);
    let root = &store.root();
    let conv =
        |name| nn::conv2d(root / name, 1, 1, 3, Default::default()).profile_layer(root / name);
    let norm = nn::batch_norm2d(root / "norm", 1, Default::default());
    let block = nn::seq_t()
        .add(conv("first"))
        .add(norm.profile_layer_t(root / "norm"))
        .add_fn(|input| input.relu())
        .add(nn::func_t(|input, train| input.dropout(0.5, train)).profile_layer_t("dropout"))
        .profile_layer_t("block");
    let net = nn::seq().add(conv("a")).add(nn::seq().add(conv("b")).profile_layer("inner"));
    let input = Tensor::ones([1, 1, 8, 8], FLOAT_CPU);
    let rows = [
        "[module]SequentialT: block",
        "[module]Conv2D: first",
        "[module]BatchNorm: norm",
        "[module]FuncT: dropout",
        "[module]Conv2D: a",
        "[module]Sequential: inner",
        "[module]Conv2D: b",
    ];
    let counts = measured(rows, || {
        for train in [true, false, true] {
            let _ = block.forward_t(&input, train);
        }
        let _ = net.forward(&input);
        let _ = input.apply(&net);
    });
    assert_eq!(counts, [3, 3, 3, 3, 2, 2, 2]);
    // The wrapped layer is reachable, and it is not measured without a profiler.
    assert_eq!(conv("c").ws.size(), [1, 1, 3, 3]);
    assert_eq!(conv("c").into_inner().forward(&input).size(), [1, 1, 6, 6]);
}

#[test]
fn recurrent_layers_are_rows_too() {
    let _turn = turn();
    let store = nn::VarStore::new(Device::Cpu);
    let root = &store.root();
    let lstm = nn::lstm(root / "lstm", 3, 4, Default::default()).profile_layer(root / "lstm");
    let gru = nn::gru(root / "gru", 3, 4, Default::default()).profile_layer("gru");
    let input = Tensor::ones([2, 5, 3], FLOAT_CPU);
    let counts = measured(["[module]LSTM: lstm", "[module]GRU: gru"], || {
        let (output, _) = lstm.seq(&input);
        assert_eq!(output.size(), [2, 5, 4]);
        let (again, _) = lstm.seq_init(&input, &lstm.zero_state(2));
        assert_eq!(again, output, "the same layer");
        let _ = gru.step(&input.select(1, 0), &gru.zero_state(2));
    });
    assert_eq!(counts, [2, 1]);
}
