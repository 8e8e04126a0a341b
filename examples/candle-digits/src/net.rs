//! A small convolutional network.

use candle_core::{D, DType, Module, Result, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Linear, VarBuilder, conv2d, linear, loss};
use digits::{CLASSES, Plant, SIDE};
use mlprof_candle::prelude::*;

use crate::data::Batch;

/// Two convolutions, pooling, two linear layers; each a row of the report.
#[derive(Debug)]
pub struct DigitNet {
    conv1: ProfiledLayer<Conv2d>,
    conv2: ProfiledLayer<Conv2d>,
    hidden: ProfiledLayer<Linear>,
    out: ProfiledLayer<Linear>,
}

/// What the convolutions and pooling leave of an image.
const FEATURES: usize = 32 * (SIDE / 2) * (SIDE / 2);

impl DigitNet {
    /// A network with the builder's weights.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn new(vb: &VarBuilder<'_>) -> Result<Self> {
        let config = Conv2dConfig { padding: 1, ..Conv2dConfig::default() };
        Ok(Self {
            // [module]Conv2d: conv1, and so on.
            conv1: vb.pp("conv1").profile_layer(|vb| conv2d(1, 16, 3, config, vb))?,
            conv2: vb.pp("conv2").profile_layer(|vb| conv2d(16, 32, 3, config, vb))?,
            hidden: vb.pp("hidden").profile_layer(|vb| linear(FEATURES, 64, vb))?,
            out: vb.pp("out").profile_layer(|vb| linear(64, CLASSES, vb))?,
        })
    }

    /// The mean cross-entropy of a batch.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn loss(&self, batch: &Batch) -> Result<Tensor> {
        self.planted_loss(batch, None)
    }

    /// The same with a mistake.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn planted_loss(&self, batch: &Batch, plant: Option<Plant>) -> Result<Tensor> {
        loss::cross_entropy(&self.scores(&batch.images, plant)?, &batch.classes)
    }

    /// `[batch, 1, SIDE, SIDE]` to `[batch, CLASSES]`: how much each image looks like each class.
    fn scores(&self, images: &Tensor, plant: Option<Plant>) -> Result<Tensor> {
        let edges = self.conv1.forward(images)?.relu()?;
        let conv2 = |conv: &Conv2d| match Plant::of_conv2(plant) {
            Some(Plant::Flipped) => flipped(conv)?.forward(&edges),
            plant => planted(conv.forward(&edges)?, plant),
        };
        let shapes = unplanted(self.conv2.measure_output(&edges, conv2)?, plant)?.relu()?;
        let features = shapes.max_pool2d(2)?.flatten_from(1)?;
        let hidden = |hidden: &Linear| planted(hidden.forward(&features)?, Plant::of_hidden(plant));
        self.out.forward(&self.hidden.measure_output(&features, hidden)?.relu()?)
    }

    /// The mean cross-entropy of a batch, and the share of its digits that the network knows.
    ///
    /// # Errors
    ///
    /// What candle says.
    pub fn judge(&self, batch: &Batch) -> Result<(f64, f64)> {
        let scores = self.forward(&batch.images)?;
        let loss = loss::cross_entropy(&scores, &batch.classes)?.to_scalar::<f32>()?;
        let right = scores.argmax(D::Minus1)?.eq(&batch.classes)?;
        let accuracy = right.to_dtype(DType::F32)?.mean_all()?.to_scalar::<f32>()?;
        Ok((loss.into(), accuracy.into()))
    }
}

impl Module for DigitNet {
    /// `[batch, 1, SIDE, SIDE]` to `[batch, CLASSES]`: how much each image looks like each class.
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        self.scores(images, None)
    }
}

/// What a layer returns that makes this mistake.
fn planted(output: Tensor, plant: Option<Plant>) -> Result<Tensor> {
    match plant {
        Some(Plant::Nan) => output.relu()?.log(),
        Some(Plant::Variance) => {
            let constant = output.zeros_like()?;
            let variance = constant.sqr()?.mean_keepdim(D::Minus1)?;
            constant.broadcast_div(&variance.sqrt()?)
        }
        Some(Plant::Dead) => (output + Plant::NEGATIVE)?.relu(),
        Some(Plant::Half) => output.to_dtype(DType::F16)?.to_dtype(DType::F32),
        Some(Plant::Underflow) => (output * Plant::TOO_SMALL)?.to_dtype(DType::F16),
        Some(Plant::LearningRate | Plant::Flipped) | None => Ok(output),
    }
}

/// What the rest of the network gets of what a layer returned: what 16 bits have left of it.
fn unplanted(output: Tensor, plant: Option<Plant>) -> Result<Tensor> {
    match plant {
        Some(Plant::Underflow) => output.to_dtype(DType::F32)? / Plant::TOO_SMALL,
        _ => Ok(output),
    }
}

/// The same layer with its filters upside down.
fn flipped(conv: &Conv2d) -> Result<Conv2d> {
    let weight = conv.weight().flip(&[2, 3])?;
    Ok(Conv2d::new(weight, conv.bias().cloned(), *conv.config()))
}
