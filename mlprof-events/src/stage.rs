//! Stages of a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a trainer is doing. Each stage has a report of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Training, with the validation that belongs to it.
    Fit,
    /// A validation run of its own.
    Validate,
    /// Evaluation on test data.
    Test,
    /// Inference.
    Predict,
    /// A few validation batches before training, to find mistakes early. Inside
    /// [`Fit`](Self::Fit) it has rows of its own in fit's report.
    SanityCheck,
}

impl Stage {
    /// The name in file names and JSON: `fit`, `validate`, `test`, `predict`, `sanity_check`.
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
