//! Stages of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Stage of a trainer. Each stage has its own report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Training, including its validation.
    Fit,
    /// A separate validation run.
    Validate,
    /// Evaluation on test data.
    Test,
    /// Inference.
    Predict,
    /// A few validation batches before training, to find mistakes early. Inside [`Fit`](Self::Fit)
    /// it appears as separate rows in the report of the fit.
    SanityCheck,
}

impl Stage {
    /// Returns the name in file names and JSON: `fit`, `validate`, `test`, `predict`,
    /// `sanity_check`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Validate => "validate",
            Self::Test => "test",
            Self::Predict => "predict",
            Self::SanityCheck => "sanity_check",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_json() {
        for stage in [Stage::Fit, Stage::Validate, Stage::Test, Stage::Predict, Stage::SanityCheck]
        {
            let json = serde_json::to_string(&stage).expect("plain enum");
            assert_eq!(json, format!("\"{stage}\""));
        }
    }
}
