//! A small convolutional network.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_plugin::{ProfileModule, ProfiledBackward};
use profiler_core::prelude::profile;

use crate::data::Batch;

/// Two convolutions, pooling, two linear layers.
#[derive(Module, Debug)]
pub struct DigitNet {
    conv1: Conv2d,
    conv2: Conv2d,
    pool: MaxPool2d,
    hidden: Linear,
    out: Linear,
}

#[profile]
impl DigitNet {
    /// A network with random weights.
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
        }
    }

    /// `[batch, 8, 8]` to `[batch, 10]`: how much each image looks like each class.
    pub fn forward(&self, images: Tensor<3>) -> Tensor<2> {
        self.classify(self.features(images.unsqueeze_dim(1)))
    }

    fn features(&self, images: Tensor<4>) -> Tensor<2> {
        let edges = relu(self.conv1.profiled("conv1", |conv| conv.forward(images)));
        let shapes = relu(self.conv2.profiled("conv2", |conv| conv.forward(edges)));
        self.pool.forward(shapes).flatten(1, 3)
    }

    fn classify(&self, features: Tensor<2>) -> Tensor<2> {
        let hidden = self.hidden.profiled("hidden", |layer| layer.forward(features));
        self.out.profiled("out", |layer| layer.forward(relu(hidden)))
    }

    fn loss(&self, scores: Tensor<2>, classes: Tensor<1, Int>) -> Tensor<1> {
        CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, classes)
    }

    /// Forward and loss.
    pub fn forward_classification(&self, batch: Batch) -> ClassificationOutput {
        let scores = self.forward(batch.images);
        let loss = self.loss(scores.clone(), batch.classes.clone());
        ClassificationOutput::new(loss, scores, batch.classes)
    }
}

impl TrainStep for DigitNet {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = self.forward_classification(batch);
        // `backward()`, with a row of its own in the report.
        let gradients = output.loss.backward_profiled();
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
