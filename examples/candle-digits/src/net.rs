//! A small convolutional network.

use candle_core::{D, DType, Module, Result, Tensor};
use candle_nn::{Conv2d, Conv2dConfig, Linear, VarBuilder, conv2d, linear, loss};
use digits::{CLASSES, Plant, SIDE};
use mlprof_candle::prelude::*;

use crate::data::Batch;

/// A network of two convolutions, pooling and two linear layers. Each layer is a row of the report.
#[derive(Debug)]
pub struct DigitNet {
    conv1: ProfiledLayer<Conv2d>,
    conv2: ProfiledLayer<Conv2d>,
    hidden: ProfiledLayer<Linear>,
    out: ProfiledLayer<Linear>,
}

/// Number of features per image after the convolutions and pooling.
const FEATURES: usize = 32 * (SIDE / 2) * (SIDE / 2);

impl DigitNet {
    /// Creates a network with the builder's weights.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn new(vb: &VarBuilder<'_>) -> Result<Self> {
        let config = Conv2dConfig { padding: 1, ..Conv2dConfig::default() };
        Ok(Self {
            // The rows are named [module]Conv2d: conv1, and so on.
            conv1: vb.pp("conv1").profile_layer(|vb| conv2d(1, 16, 3, config, vb))?,
            conv2: vb.pp("conv2").profile_layer(|vb| conv2d(16, 32, 3, config, vb))?,
            hidden: vb.pp("hidden").profile_layer(|vb| linear(FEATURES, 64, vb))?,
            out: vb.pp("out").profile_layer(|vb| linear(64, CLASSES, vb))?,
        })
    }

    /// Returns the mean cross-entropy of a batch.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn loss(&self, batch: &Batch) -> Result<Tensor> {
        self.planted_loss(batch, None)
    }

    /// Returns the mean cross-entropy of a batch with a planted mistake.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn planted_loss(&self, batch: &Batch, plant: Option<Plant>) -> Result<Tensor> {
        loss::cross_entropy(&self.scores(&batch.images, plant)?, &batch.classes)
    }

    /// Maps images `[batch, 1, SIDE, SIDE]` to scores `[batch, CLASSES]`, one per class.
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

    /// Returns the mean cross-entropy of a batch, and the share of correctly classified digits.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn judge(&self, batch: &Batch) -> Result<(f64, f64)> {
        let scores = self.forward(&batch.images)?;
        let loss = loss::cross_entropy(&scores, &batch.classes)?.to_scalar::<f32>()?;
        let right = scores.argmax(D::Minus1)?.eq(&batch.classes)?;
        let accuracy = right.to_dtype(DType::F32)?.mean_all()?.to_scalar::<f32>()?;
        Ok((loss.into(), accuracy.into()))
    }
}

impl Module for DigitNet {
    /// Maps images `[batch, 1, SIDE, SIDE]` to scores `[batch, CLASSES]`, one per class.
    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        self.scores(images, None)
    }
}

/// Returns a layer's output with the planted mistake.
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

/// Converts a layer's 16-bit output back for the rest of the network.
fn unplanted(output: Tensor, plant: Option<Plant>) -> Result<Tensor> {
    match plant {
        Some(Plant::Underflow) => output.to_dtype(DType::F32)? / Plant::TOO_SMALL,
        _ => Ok(output),
    }
}

/// Returns the same layer with flipped filters.
fn flipped(conv: &Conv2d) -> Result<Conv2d> {
    let weight = conv.weight().flip(&[2, 3])?;
    Ok(Conv2d::new(weight, conv.bias().cloned(), *conv.config()))
}
