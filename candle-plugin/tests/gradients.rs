//! Tests accumulation, clipping and rejection of gradients.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, ParamsAdamW, SGD};
use mlprof_candle::Error;
use mlprof_candle::prelude::*;

use common::{Net, bits, points};

type TestResult = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn optimizer_of(net: &Net) -> std::result::Result<CandleOptimizer<SGD>, Error> {
    CandleOptimizer::new(vars_by_name(&net.vars), 0.1)
}

fn values(optimizer: &CandleOptimizer<SGD>) -> Result<Vec<f32>> {
    let bits = bits(optimizer.gradients().map(|(_, gradient)| gradient))?;
    Ok(bits.into_iter().map(f32::from_bits).collect())
}

#[test]
fn two_half_batches_give_the_gradients_of_the_whole() -> TestResult {
    let net = Net::new()?;
    let (points, sides) = points(16)?;
    let mut whole = optimizer_of(&net)?;
    whole.backward(&net.loss(&(points.clone(), sides.clone()))?, 1.0)?;

    let mut halves = optimizer_of(&net)?;
    for first in [0, 8] {
        let half = (points.narrow(0, first, 8)?, sides.narrow(0, first, 8)?);
        halves.backward(&net.loss(&half)?, 0.5)?;
    }
    let (whole, halves) = (values(&whole)?, values(&halves)?);
    assert_eq!(whole.len(), 2 * 16 + 16 + 16 * 2 + 2);
    assert!(whole.iter().any(|gradient| gradient.abs() > 0.01));
    for (whole, half) in whole.iter().zip(&halves) {
        assert!((whole - half).abs() < 1e-6, "{whole} {half}");
    }
    Ok(())
}

#[test]
fn forgotten_gradients_are_gone() -> TestResult {
    let net = Net::new()?;
    let points = points(8)?;
    let mut optimizer = optimizer_of(&net)?;
    optimizer.backward(&net.loss(&points)?, 1.0)?;
    let once = values(&optimizer)?;
    optimizer.zero_grad()?;
    assert_eq!(optimizer.gradients().count(), 0);
    assert!(optimizer.gradient_norm()?.is_none());
    optimizer.clip_gradients(1.0)?;
    optimizer.backward(&net.loss(&points)?, 1.0)?;
    assert_eq!(values(&optimizer)?, once);
    Ok(())
}

#[test]
fn clipping_gives_the_norm_that_was_asked_for() -> TestResult {
    let net = Net::new()?;
    let mut optimizer = optimizer_of(&net)?;
    optimizer.backward(&net.loss(&points(8)?)?, 1.0)?;
    let before = values(&optimizer)?;
    let norm = |gradients: &[f32]| {
        gradients.iter().map(|gradient| f64::from(*gradient).powi(2)).sum::<f64>().sqrt()
    };
    let half = norm(&before) / 2.0;
    optimizer.clip_gradients(half)?;
    let after = values(&optimizer)?;
    assert!((norm(&after) / half - 1.0).abs() < 1e-5, "{} instead of {half}", norm(&after));
    for (before, after) in before.iter().zip(&after) {
        assert!((before / 2.0 - after).abs() < 1e-6, "the direction is kept");
    }
    Ok(())
}

#[test]
fn small_gradients_keep_every_bit() -> TestResult {
    let net = Net::new()?;
    let mut optimizer = optimizer_of(&net)?;
    optimizer.backward(&net.loss(&points(8)?)?, 1.0)?;
    let before = values(&optimizer)?;
    optimizer.clip_gradients(1e3)?;
    assert_eq!(values(&optimizer)?, before);
    optimizer.map_gradients(|_, gradient| gradient.zeros_like())?;
    optimizer.clip_gradients(1.0)?;
    assert!(values(&optimizer)?.iter().all(|gradient| *gradient == 0.0), "no 0 / 0");
    Ok(())
}

#[test]
fn clipping_takes_variables_of_several_widths_together() -> TestResult {
    let single = Var::new(&[3f32], &Device::Cpu)?;
    let double = Var::new(&[4f64], &Device::Cpu)?;
    let half = Var::from_tensor(&Tensor::new(&[0f32], &Device::Cpu)?.to_dtype(DType::BF16)?)?;
    let vars = vec![half.clone(), single.clone(), double.clone()];
    let mut optimizer = CandleOptimizer::<SGD>::new(vars, 1.0)?;
    // The gradients are 0, 3 and 4, so their norm is 5.
    let halved_square = |var: &Var| (var.sqr()?.sum_all()? * 0.5)?.to_dtype(DType::F64);
    let loss = [&half, &single, &double]
        .iter()
        .try_fold(Tensor::new(0f64, &Device::Cpu)?, |sum, var| sum + halved_square(var)?)?;
    optimizer.backward(&loss, 1.0)?;
    optimizer.clip_gradients(1.0)?;
    optimizer.step()?;
    assert!((single.get(0)?.to_scalar::<f32>()? - 2.4).abs() < 1e-6);
    assert!((double.get(0)?.to_scalar::<f64>()? - 3.2).abs() < 1e-6);
    Ok(())
}

#[test]
fn a_variable_that_layers_share_counts_once() -> TestResult {
    let weight = Var::new(3f32, &Device::Cpu)?;
    let vars = vec![weight.clone(), weight.clone()];
    let mut optimizer = CandleOptimizer::with_optimizer(
        candle_nn::Optimizer::new(vec![weight.clone()], 0.5)?,
        vars,
    )?;
    let _: &SGD = optimizer.optimizer();
    optimizer.backward(&(weight.sqr()? * 0.5)?, 1.0)?;
    assert_eq!(optimizer.gradients().count(), 1);
    assert_eq!(optimizer.gradient_norm()?.expect("a gradient").to_scalar::<f32>()?, 3.0);
    optimizer.clip_gradients(1.0)?;
    optimizer.step()?;
    assert_eq!(weight.to_scalar::<f32>()?, 2.5);
    Ok(())
}

/// Checks both candle optimizers, with another variable in between.
#[test]
fn a_variable_that_is_given_twice_steps_once() -> TestResult {
    fn stepped<O: candle_nn::Optimizer + 'static>(
        config: O::Config,
        is_twice: bool,
    ) -> mlprof_train::Result<f32> {
        let (weight, other) = (Var::new(3f32, &Device::Cpu)?, Var::new(1f32, &Device::Cpu)?);
        let mut vars = vec![weight.clone(), other.clone()];
        vars.extend(is_twice.then(|| weight.clone()));
        let mut optimizer = CandleOptimizer::<O>::new(vars, config)?;
        optimizer.backward(&(weight.sqr()? * 0.5)?.add(&other)?, 1.0)?;
        optimizer.step()?;
        Ok(weight.to_scalar::<f32>()?)
    }
    assert_eq!(stepped::<SGD>(0.5, true)?, 1.5);
    let adam = |is_twice| stepped::<AdamW>(ParamsAdamW { lr: 0.5, ..Default::default() }, is_twice);
    assert_eq!(adam(true)?, adam(false)?);
    Ok(())
}

#[test]
fn averaging_sees_every_gradient_with_its_variable() -> TestResult {
    let net = Net::new()?;
    let mut optimizer = optimizer_of(&net)?;
    optimizer.backward(&net.loss(&points(8)?)?, 1.0)?;
    let before = values(&optimizer)?;
    let mut shapes = Vec::new();
    optimizer.map_gradients(|var, gradient| {
        assert_eq!(var.shape(), gradient.shape());
        shapes.push(var.dims().to_vec());
        gradient * 2.0
    })?;
    assert_eq!(shapes, [vec![16], vec![16, 2], vec![2], vec![2, 16]]);
    let doubled: Vec<f32> = before.iter().map(|gradient| gradient * 2.0).collect();
    assert_eq!(values(&optimizer)?, doubled);
    Ok(())
}

#[test]
fn the_loss_is_read_whatever_its_form() -> TestResult {
    let optimizer = optimizer_of(&Net::new()?)?;
    let loss = Tensor::new(&[[0.5f32]], &Device::Cpu)?;
    assert_eq!(optimizer.loss_value(&loss)?, 0.5);
    assert_eq!(optimizer.loss_value(&loss.to_dtype(DType::BF16)?.get(0)?.get(0)?)?, 0.5);
    assert!(!optimizer.reading_waits(&loss), "a CPU has computed it");
    Ok(())
}

#[test]
fn untrainable_input_is_an_error() -> TestResult {
    let net = Net::new()?;
    let error = CandleOptimizer::<SGD>::new(Vec::new(), 0.1).expect_err("no variables");
    assert!(error.to_string().contains("build the model before its optimizer"), "{error}");

    let mut optimizer = optimizer_of(&net)?;
    let several = Tensor::zeros(3, DType::F32, &Device::Cpu)?;
    let error = optimizer.backward(&several, 1.0).expect_err("three losses");
    assert!(error.to_string().contains("shape [3]"), "{error}");
    assert!(optimizer.loss_value(&several).is_err());

    let other = Net::new()?;
    let error = optimizer.backward(&other.loss(&points(8)?)?, 1.0).expect_err("another model");
    assert!(error.to_string().contains("none of the optimizer's 4 variables"), "{error}");
    Ok(())
}

#[test]
fn gradients_are_clipped_by_value() -> TestResult {
    let weight = Var::new(&[0.5f32, -3., 4.], &Device::Cpu)?;
    let mut optimizer = CandleOptimizer::<SGD>::new(vec![weight.clone()], 1.0)?;
    optimizer.clip_gradients_by_value(1.0)?; // without gradients, it does nothing
    optimizer.backward(&weight.sqr()?.sum_all()?, 1.0)?;
    optimizer.clip_gradients_by_value(1.5)?;
    assert_eq!(values(&optimizer)?, [1.0, -1.5, 1.5]);
    Ok(())
}
