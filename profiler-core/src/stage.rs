//! Stages of a run, and what a run tells its profiler when one begins.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a trainer is doing. Each stage has a report of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
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

/// What a run tells its profiler at [`Profiler::setup`](crate::Profiler::setup).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunContext {
    /// The number of this process among all of the run, from 0, over all nodes.
    pub rank: u32,
    /// How many processes take part; 1 for most runs.
    pub world_size: u32,
    /// The trainer's own directory: reports go there if a file name but no directory was given.
    pub log_dir: Option<PathBuf>,
}

impl Default for RunContext {
    /// The only process of its run, without a directory.
    fn default() -> Self {
        Self { rank: 0, world_size: 1, log_dir: None }
    }
}

impl RunContext {
    /// Rank and world size from the variables `RANK` and `WORLD_SIZE` that launchers such as
    /// torchrun set; the only process of its run where they are missing or make no sense.
    pub fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.trim().parse::<u32>().ok();
        Self::of_rank(number("RANK"), number("WORLD_SIZE"))
    }

    fn of_rank(rank: Option<u32>, world_size: Option<u32>) -> Self {
        match (rank, world_size) {
            (Some(rank), Some(world_size)) if rank < world_size => {
                Self { rank, world_size, ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    /// Sets the trainer's directory.
    #[must_use]
    pub fn with_log_dir(mut self, log_dir: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(log_dir.into());
        self
    }

    /// Sets rank and world size.
    #[must_use]
    pub fn with_rank(mut self, rank: u32, world_size: u32) -> Self {
        (self.rank, self.world_size) = (rank, world_size);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_make_no_sense_are_a_single_process() {
        assert_eq!(RunContext::of_rank(None, None), RunContext::default());
        assert_eq!(RunContext::of_rank(Some(3), None), RunContext::default());
        assert_eq!(RunContext::of_rank(Some(4), Some(4)), RunContext::default());
        assert_eq!(RunContext::of_rank(Some(3), Some(4)).rank, 3);
    }

    #[test]
    fn names_are_the_same_in_json() {
        for stage in [Stage::Fit, Stage::Validate, Stage::Test, Stage::Predict, Stage::SanityCheck]
        {
            let json = serde_json::to_string(&stage).expect("plain enum");
            assert_eq!(json, format!("\"{stage}\""));
        }
    }
}
