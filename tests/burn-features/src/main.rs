//! Prints burn's default device, and the weights of a small model after several training steps.

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, Gradients, Tensor};
#[cfg(feature = "plugin")]
use mlprof_burn::prelude::*;

fn main() {
    let device = Device::default();
    println!("device {device:?}");
    let device = device.autodiff();
    println!("with gradients {device:?}");
    device.seed(7);
    let model: Linear = LinearConfig::new(3, 2).init(&device);
    let mut weight = model.weight.val();
    for step in 0..5 {
        let input = Tensor::<2>::ones([4, 3], &device) * (step as f32 + 0.5);
        let tracked = weight.clone().detach().require_grad();
        let loss = (input.matmul(tracked.clone()) - 1.0).powi_scalar(2).mean();
        let gradients = gradients(&loss);
        let Some(gradient) = tracked.grad(&gradients) else { panic!("a leaf without a gradient") };
        weight = tracked - Tensor::from_inner(gradient) * 0.01;
    }
    let numbers = weight.into_data().try_to_vec::<f32>();
    let bits: Vec<_> = numbers.into_iter().flatten().map(f32::to_bits).collect();
    println!("weights {bits:x?}");
}

#[cfg(not(feature = "plugin"))]
fn gradients(loss: &Tensor<1>) -> Gradients {
    loss.backward()
}

#[cfg(feature = "plugin")]
fn gradients(loss: &Tensor<1>) -> Gradients {
    let profiler = std::sync::Arc::new(SimpleProfiler::new());
    let _active = activate(profiler.clone());
    let gradients = loss.profile_backward();
    assert!(profiler.summary().contains("backward"), "measured");
    gradients
}
