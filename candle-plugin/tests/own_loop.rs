//! Hand-written loops with wrapped optimizers and layers.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::sync::Arc;

use candle_core::{DType, Device, IndexOp, ModuleT, Result, Tensor, Var};
use candle_nn::{AdamW, Dropout, Module, Optimizer, RNN, SGD, VarBuilder, seq};
use mlprof_candle::prelude::*;

use common::{HIDDEN_ROW, Net, OUT_ROW, batches, calls, take_turn};

const BATCHES: usize = 5;

/// Returns the weights after a few steps with this optimizer.
fn train<O: Optimizer>(make: impl FnOnce(Vec<Var>) -> Result<O>) -> Result<Vec<u32>> {
    let net = Net::new()?;
    let mut optimizer = make(vars_by_name(&net.vars))?;
    for batch in batches(BATCHES)? {
        optimizer.backward_step(&net.loss(&batch)?)?;
    }
    net.bits()
}

#[test]
fn a_measured_optimizer_trains_bit_by_bit_as_a_plain_one() -> Result<()> {
    let _turn = take_turn();
    let untrained = Net::new()?.bits()?;
    let plain = train(|vars| AdamW::new_lr(vars, 0.01))?;
    assert_ne!(plain, untrained);
    let silent = train(|vars| Ok(AdamW::new_lr(vars, 0.01)?.profile_optimizer()))?;
    assert_eq!(silent, plain, "without a profiler");

    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    let measured =
        train(|vars| Ok(AdamW::new_lr(vars, 0.01)?.profile_optimizer().synchronize(&Device::Cpu)))?;
    drop(active);
    assert_eq!(measured, plain, "with one");
    for row in ["backward", "Optimizer.step", HIDDEN_ROW, OUT_ROW] {
        assert_eq!(calls(&profiler, row), BATCHES as u64, "{row}");
    }
    Ok(())
}

#[test]
fn the_optimizer_inside_can_be_reached() -> Result<()> {
    let weight = Var::new(1f32, &Device::Cpu)?;
    let mut optimizer = ProfiledOptimizer::<AdamW>::new(vec![weight], Default::default())?;
    let mut parameters = optimizer.params().clone();
    parameters.beta1 = 0.5;
    optimizer.set_params(parameters);
    optimizer.set_learning_rate(0.25);
    let inner = optimizer.into_inner();
    assert_eq!((inner.params().beta1, inner.learning_rate()), (0.5, 0.25));
    Ok(())
}

#[test]
fn every_forward_of_every_layer_is_counted() -> Result<()> {
    let _turn = take_turn();
    let net = seq()
        .add((|x: &Tensor| x * 2.0).profile_layer("double"))
        .add(candle_nn::func(|x| x + 1.0).profile_layer("add"))
        .add_fn(Tensor::relu)
        .profile_layer("net");
    let dropout = Dropout::new(0.5).profile_layer_t("dropout");
    let attention = ProfiledLayer::new(vec![1.0], "attention");
    let x = Tensor::new(&[-1f32, 0., 1.], &Device::Cpu)?;
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    for train in [true, false, false] {
        assert_eq!(net.forward(&x)?.to_vec1::<f32>()?, [0., 1., 3.]);
        let kept = dropout.forward_t(&x, train)?;
        assert!(train || kept.to_vec1::<f32>()? == [-1., 0., 1.]);
    }
    assert_eq!(attention.measure(|weights| weights.len()), 1);
    drop(active);
    net.forward(&x)?;
    let expected = [
        ("[module]Sequential: net", 3),
        ("[module]closure: double", 3),
        ("[module]Func: add", 3),
        ("[module]Dropout: dropout", 3),
        ("[module]Vec: attention", 1),
    ];
    for (row, number) in expected {
        assert_eq!(calls(&profiler, row), number, "{row}");
    }
    Ok(())
}

#[test]
fn recurrent_layers_are_rows_too() -> Result<()> {
    let _turn = take_turn();
    let vb = VarBuilder::zeros(DType::F32, &Device::Cpu).pp("encoder");
    let lstm = vb.pp("lstm").profile_layer(|vb| candle_nn::lstm(3, 4, Default::default(), vb))?;
    let gru = candle_nn::gru(3, 4, Default::default(), vb.pp("gru"))?.profile_layer(vb.pp("gru"));
    let x = Tensor::ones((2, 5, 3), DType::F32, &Device::Cpu)?;
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    let states = lstm.seq(&x)?;
    lstm.seq_init(&x, &lstm.zero_state(2)?)?;
    gru.step(&x.i((.., 0))?, &gru.zero_state(2)?)?;
    drop(active);
    assert_eq!(calls(&profiler, "[module]LSTM: encoder.lstm"), 2, "whole sequences");
    assert_eq!(calls(&profiler, "[module]GRU: encoder.gru"), 1);
    let plain = lstm.into_inner();
    let same = plain.states_to_tensor(&plain.seq(&x)?)?.sub(&plain.states_to_tensor(&states)?)?;
    assert_eq!(same.sqr()?.sum_all()?.to_scalar::<f32>()?, 0.0);
    Ok(())
}

#[test]
fn a_failing_layer_is_counted_and_its_error_returned() -> Result<()> {
    let _turn = take_turn();
    let layer = (|x: &Tensor| x.matmul(x)).profile_layer("square");
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    let wide = Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?;
    assert!(layer.forward(&wide).is_err());
    drop(active);
    assert_eq!(calls(&profiler, "[module]closure: square"), 1);
    Ok(())
}

#[test]
fn backward_alone_is_measured() -> Result<()> {
    let _turn = take_turn();
    let weight = Var::new(3f32, &Device::Cpu)?;
    let mut optimizer = SGD::new(vec![weight.clone()], 0.5)?.profile_optimizer();
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    let gradients = (weight.sqr()? * 0.5)?.profile_backward()?;
    assert_eq!((calls(&profiler, "backward"), calls(&profiler, "Optimizer.step")), (1, 0));
    optimizer.step(&gradients)?;
    drop(active);
    assert_eq!((calls(&profiler, "backward"), calls(&profiler, "Optimizer.step")), (1, 1));
    assert_eq!(weight.to_scalar::<f32>()?, 1.5);
    Ok(())
}
