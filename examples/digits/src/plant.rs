//! Mistakes in the numbers, to be found.

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
    /// What the layer that underflows multiplies its numbers by, so that they are below the 6e-5 from which on an `f16` loses digits.
    pub const TOO_SMALL: f64 = 1e-5;

    /// What the layer that is dead adds to its numbers.
    pub const NEGATIVE: f64 = -1000.0;

    /// From which step on layers make their mistake.
    const FROM: u64 = 20;

    /// The mistake, once it is time for it.
    pub fn in_step(plant: Option<Self>, step: u64) -> Option<Self> {
        plant.filter(|plant| step >= Self::FROM || !matches!(plant, Self::Nan | Self::Variance))
    }

    /// The mistake, if the layer `conv2` makes it.
    pub fn of_conv2(plant: Option<Self>) -> Option<Self> {
        plant.filter(|plant| matches!(plant, Self::Half | Self::Underflow | Self::Flipped))
    }

    /// The mistake, if the layer `hidden` makes it.
    pub fn of_hidden(plant: Option<Self>) -> Option<Self> {
        plant.filter(|plant| matches!(plant, Self::Nan | Self::Variance | Self::Dead))
    }

    /// What the learning rate is multiplied by.
    pub fn of_learning_rate(plant: Option<Self>) -> f64 {
        if plant == Some(Self::LearningRate) { 1e5 } else { 1.0 }
    }
}
