//! A small convolutional network.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, FloatDType, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use digits::Plant;
use mlprof_burn::{ProfileBackwardExt, ProfileLayerExt, record_batch};
use mlprof_core::prelude::profiled;

use crate::data::Batch;

/// A network of two convolutions, pooling and two linear layers.
#[derive(Module, Debug)]
pub struct DigitNet {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    out: Linear,
    #[module(skip)]
    planted: Planted,
}

/// A planted numerical mistake, and the number of training steps so far.
#[derive(Debug, Clone, Default)]
struct Planted {
    plant: Option<Plant>,
    steps: Arc<AtomicU64>,
}

#[profiled]
impl DigitNet {
    /// Creates a network with random weights.
    pub fn new(device: &Device) -> Self {
        let conv = |channels| {
            let padding = PaddingConfig2d::Explicit(1, 1, 1, 1);
            Conv2dConfig::new(channels, [3, 3]).with_padding(padding).init(device)
        };
        Self {
            conv1: conv([1, 16]),
            conv2: conv([16, 32]),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            hidden: LinearConfig::new(32 * 4 * 4, 64).init(device),
            out: LinearConfig::new(64, 10).init(device),
            planted: Planted::default(),
        }
    }

    /// Creates a network with the weights of this seed. They are the same on every device, although
    /// devices have different random number generators.
    pub fn seeded(seed: u64, device: &Device) -> Self {
        let processor = Device::flex().autodiff();
        processor.seed(seed);
        let net = Self::new(&processor);
        // Weights are initialised lazily, on the device where they are first used. The clone forces
        // their initialisation on the CPU.
        net.clone().fork(device)
    }

    /// Plants a mistake, which takes effect during training.
    pub fn plant(self, plant: Option<Plant>) -> Self {
        Self { planted: Planted { plant, ..Planted::default() }, ..self }
    }

    /// Maps images `[batch, 8, 8]` to scores `[batch, 10]`, one per class.
    pub fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        self.scores(images, None)
    }

    fn scores(&self, images: Tensor<3>, plant: Option<Plant>) -> Tensor<2> {
        self.classify(self.features(images.unsqueeze_dim(1), plant), plant)
    }

    fn features(&self, images: Tensor<4>, plant: Option<Plant>) -> Tensor<2> {
        let plant = Plant::of_conv2(plant);
        let edges = relu(self.conv1.profile_forward("conv1", images, Conv2d::forward));
        let shapes = self.conv2.profile_forward("conv2", edges, |conv, edges| match plant {
            // Flipping input and output is equivalent to flipping the filters, because the padding
            // is symmetric.
            Some(Plant::Flipped) => conv.forward(edges.flip([2, 3])).flip([2, 3]),
            _ => planted(conv.forward(edges), plant),
        });
        self.pool.forward(relu(unplanted(shapes, plant))).flatten(1, 3)
    }

    fn classify(&self, features: Tensor<2>, plant: Option<Plant>) -> Tensor<2> {
        let plant = Plant::of_hidden(plant);
        let hidden = self.hidden.profile_forward("hidden", features, |layer, features| {
            planted(layer.forward(features), plant)
        });
        self.out.profile_forward("out", relu(hidden), Linear::forward)
    }

    fn loss(&self, scores: Tensor<2>, classes: Tensor<1, Int>) -> Tensor<1> {
        CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, classes)
    }

    /// Runs the forward pass and computes the loss.
    pub fn forward_classification(&self, batch: Batch) -> ClassificationOutput {
        self.planted_classification(batch, None)
    }

    fn planted_classification(&self, batch: Batch, plant: Option<Plant>) -> ClassificationOutput {
        let scores = self.scores(batch.images, plant);
        let loss = self.loss(scores.clone(), batch.classes.clone());
        ClassificationOutput::new(loss, scores, batch.classes)
    }
}

impl TrainStep for DigitNet {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        record_batch("images", &batch.images);
        record_batch("classes", &batch.classes);
        let step = self.planted.steps.fetch_add(1, Ordering::Relaxed);
        let plant = Plant::in_step(self.planted.plant, step);
        let output = self.planted_classification(batch, plant);
        // Equivalent to `backward()`, but with a separate row in the report.
        let gradients = output.loss.profile_backward();
        TrainOutput::new(self, gradients, output)
    }
}

impl InferenceStep for DigitNet {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        self.forward_classification(batch)
    }
}

/// Returns a layer's output with the planted mistake.
fn planted<const D: usize>(output: Tensor<D>, plant: Option<Plant>) -> Tensor<D> {
    match plant {
        Some(Plant::Nan) => relu(output).log(),
        Some(Plant::Variance) => {
            let constant = output.zeros_like();
            let variance = constant.clone().square().mean_dim(D - 1);
            constant / variance.sqrt()
        }
        Some(Plant::Dead) => relu(output.add_scalar(Plant::NEGATIVE)),
        Some(Plant::Half) => output.cast(FloatDType::F16).cast(FloatDType::F32),
        Some(Plant::Underflow) => output.mul_scalar(Plant::TOO_SMALL).cast(FloatDType::F16),
        Some(Plant::LearningRate | Plant::Flipped) | None => output,
    }
}

/// Converts a layer's 16-bit output back for the rest of the network.
fn unplanted<const D: usize>(output: Tensor<D>, plant: Option<Plant>) -> Tensor<D> {
    match plant {
        Some(Plant::Underflow) => output.cast(FloatDType::F32).div_scalar(Plant::TOO_SMALL),
        _ => output,
    }
}
