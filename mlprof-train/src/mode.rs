//! The direction in which a metric improves.

/// Direction in which a monitored metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Lower values are better, as of a loss.
    Min,
    /// Higher values are better, as of an accuracy.
    Max,
}

impl Mode {
    pub(super) fn is_better(self, value: f64, than: f64) -> bool {
        match self {
            Self::Min => value < than,
            Self::Max => value > than,
        }
    }

    /// Returns a value that every finite one is better than.
    pub(super) const fn worst(self) -> f64 {
        match self {
            Self::Min => f64::INFINITY,
            Self::Max => f64::NEG_INFINITY,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}
