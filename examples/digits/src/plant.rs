//! Planted numerical mistakes, which the numerics profiler should detect.

/// A mistake that is planted into the network on purpose, for `--profiler numerics` to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Plant {
    /// The layer `hidden` takes a logarithm, of 0 too, from step 20 on
    Nan,
    /// The layer `hidden` divides by a variance of 0, from step 20 on
    Variance,
    /// The layer `hidden` returns nothing but 0: the `relu` of numbers that are all negative
    Dead,
    /// A learning rate a hundred thousand times too high
    LearningRate,
    /// The layer `conv2` computes with 16 bits
    Half,
    /// The layer `conv2` returns 16 bits, and a hundred thousand times too small numbers for them
    Underflow,
    /// The layer `conv2` has its filters upside down: as signal processing has convolutions, and other libraries
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
