//! Mistakes in the numbers, to be found.

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
