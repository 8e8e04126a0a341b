//! Planted numerical mistakes, which the numerics profiler should detect.

/// Numerical error to plant into the network, for `--profiler numerics` to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// From step 20 on, the layer `hidden` takes logarithms, including that of 0
    Nan,
    /// From step 20 on, the layer `hidden` divides by a variance of 0
    Variance,
    /// The layer `hidden` returns only 0: the `relu` of negative numbers
    Dead,
    /// The learning rate is 100,000 times too high
    LearningRate,
    /// The layer `conv2` computes with 16-bit floats
    Half,
    /// The layer `conv2` returns 16-bit floats that are 100,000 times too small
    Underflow,
    /// The layer `conv2` flips its filters, like convolutions in signal processing and in other
    /// libraries
    Flipped,
}

impl Plant {
    /// Factor of the underflowing layer's output. Results are below 6e-5, where `f16` numbers
    /// become subnormal and lose precision.
    pub const TOO_SMALL: f64 = 1e-5;

    /// Offset of the dead layer's output.
    pub const NEGATIVE: f64 = -1000.0;

    /// First step in which layers make their mistake.
    const FROM: u64 = 20;

    /// Returns the mistake if it is active in this step.
    pub fn in_step(plant: Option<Self>, step: u64) -> Option<Self> {
        plant.filter(|plant| step >= Self::FROM || !matches!(plant, Self::Nan | Self::Variance))
    }

    /// Returns the mistake if it belongs to the layer `conv2`.
    pub fn of_conv2(plant: Option<Self>) -> Option<Self> {
        plant.filter(|plant| matches!(plant, Self::Half | Self::Underflow | Self::Flipped))
    }

    /// Returns the mistake if it belongs to the layer `hidden`.
    pub fn of_hidden(plant: Option<Self>) -> Option<Self> {
        plant.filter(|plant| matches!(plant, Self::Nan | Self::Variance | Self::Dead))
    }

    /// Returns the factor of the learning rate.
    pub fn of_learning_rate(plant: Option<Self>) -> f64 {
        if plant == Some(Self::LearningRate) { 1e5 } else { 1.0 }
    }
}
