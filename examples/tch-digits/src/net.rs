//! A small convolutional network.

use digits::{CLASSES, Plant};
use mlprof_core::prelude::profiled;
use mlprof_tch::{ProfileLayerExt, ProfiledLayer};
use tch::nn::{self, Conv2D, ConvConfig, Linear, Module, Path};
use tch::{Kind, TchError, Tensor};

use crate::Batch;

/// A network of two convolutions, pooling and two linear layers. Each layer is a row of the report.
#[derive(Debug)]
pub struct DigitNet {
    conv1: ProfiledLayer<Conv2D>,
    conv2: ProfiledLayer<Conv2D>,
    hidden: ProfiledLayer<Linear>,
    out: ProfiledLayer<Linear>,
}

#[profiled]
impl DigitNet {
    /// Creates a network with random weights.
    pub fn new(path: &Path<'_>) -> Self {
        let conv = |name: &str, input, output| {
            let config = ConvConfig { padding: 1, ..Default::default() };
            nn::conv2d(path / name, input, output, 3, config).profile_layer(path / name)
        };
        let linear = |name: &str, input, output| {
            nn::linear(path / name, input, output, Default::default()).profile_layer(path / name)
        };
        Self {
            conv1: conv("conv1", 1, 16),
            conv2: conv("conv2", 16, 32),
            hidden: linear("hidden", 32 * 4 * 4, 64),
            out: linear("out", 64, CLASSES as i64),
        }
    }

    /// Returns the mean cross-entropy of a batch.
    ///
    /// # Errors
    ///
    /// Returns torch's error.
    pub fn loss(&self, batch: &Batch) -> Result<Tensor, TchError> {
        self.planted_loss(batch, None)
    }

    /// Returns the mean cross-entropy of a batch with a planted mistake.
    ///
    /// # Errors
    ///
    /// Returns torch's error.
    pub fn planted_loss(&self, batch: &Batch, plant: Option<Plant>) -> Result<Tensor, TchError> {
        loss(&scores(self, &batch.images, plant), batch)
    }

    /// Returns the mean cross-entropy of a batch, and the share of correctly classified digits.
    ///
    /// # Errors
    ///
    /// Returns torch's error.
    pub fn judge(&self, batch: &Batch) -> Result<(f64, f64), TchError> {
        let _no_grad = tch::no_grad_guard();
        let scores = self.forward(&batch.images);
        let loss = loss(&scores, batch)?.f_double_value(&[])?;
        let accuracy = scores.accuracy_for_logits(&batch.classes).f_double_value(&[])?;
        Ok((loss, accuracy))
    }
}

impl Module for DigitNet {
    /// Maps images `[batch, 1, 8, 8]` to scores `[batch, 10]`, one per class.
    fn forward(&self, images: &Tensor) -> Tensor {
        scores(self, images, None)
    }
}

fn scores(net: &DigitNet, images: &Tensor, plant: Option<Plant>) -> Tensor {
    let edges = net.conv1.forward(images).relu();
    let conv2 = |conv: &Conv2D| match Plant::of_conv2(plant) {
        Some(Plant::Flipped) => upside_down(conv, &edges),
        plant => planted(conv.forward(&edges), plant),
    };
    let shapes = unplanted(net.conv2.measure_output(&edges, conv2), plant).relu();
    let features = shapes.max_pool2d_default(2).flat_view();
    let hidden = |hidden: &Linear| planted(hidden.forward(&features), Plant::of_hidden(plant));
    net.out.forward(&net.hidden.measure_output(&features, hidden).relu())
}

/// Returns a layer's output with the planted mistake.
fn planted(output: Tensor, plant: Option<Plant>) -> Tensor {
    match plant {
        Some(Plant::Nan) => output.relu().log(),
        Some(Plant::Variance) => {
            let constant = output.zeros_like();
            let variance = constant.square().mean_dim(-1, true, Kind::Float);
            &constant / variance.sqrt()
        }
        Some(Plant::Dead) => (output + Plant::NEGATIVE).relu(),
        Some(Plant::Half) => output.to_kind(Kind::Half).to_kind(Kind::Float),
        Some(Plant::Underflow) => (output * Plant::TOO_SMALL).to_kind(Kind::Half),
        Some(Plant::LearningRate | Plant::Flipped) | None => output,
    }
}

/// Converts a layer's 16-bit output back for the rest of the network.
fn unplanted(output: Tensor, plant: Option<Plant>) -> Tensor {
    match plant {
        Some(Plant::Underflow) => output.to_kind(Kind::Float) / Plant::TOO_SMALL,
        _ => output,
    }
}

/// Returns the layer's output with flipped filters.
fn upside_down(conv: &Conv2D, input: &Tensor) -> Tensor {
    input.conv2d(&conv.ws.flip([2, 3]), conv.bs.as_ref(), [1, 1], [1, 1], [1, 1], 1)
}

fn loss(scores: &Tensor, batch: &Batch) -> Result<Tensor, TchError> {
    scores.f_cross_entropy_loss::<Tensor>(&batch.classes, None, tch::Reduction::Mean, -100, 0.0)
}
