//! Memory that a framework allocates and frees.

use serde::{Deserialize, Serialize};

/// Where memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryDevice {
    /// The host's memory.
    Cpu,
    /// The memory of the accelerator with this number, from 0.
    Accelerator(u16),
}

/// Memory was allocated or freed by the calling thread just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryChange {
    /// Where the memory begins; 0 if that is not known.
    pub address: u64,
    /// How many bytes; negative when they were freed.
    pub bytes: i64,
    /// All that is allocated on the device after the change, in bytes; 0 if that is not known.
    pub total_allocated: u64,
    /// What the framework holds of the device's memory, free or not, in bytes; 0 if not known.
    pub total_reserved: u64,
    /// Which memory.
    pub device: MemoryDevice,
}

/// What memory is for, in the terms of torch's memory timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryCategory {
    /// What is learned.
    Parameter,
    /// What the optimizer keeps from step to step.
    OptimizerState,
    /// Batches.
    Input,
    /// Allocated and freed inside one op, or inside the forward, the backward or the optimizer step
    /// that allocated it.
    Temporary,
    /// Made in forward and kept for backward.
    Activation,
    /// Made in backward for the optimizer.
    Gradient,
    /// Nobody knows.
    Unknown,
}

impl MemoryCategory {
    /// As in a sentence: `optimizer state`.
    #[doc(hidden)]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Parameter => "parameters",
            Self::OptimizerState => "optimizer state",
            Self::Input => "input",
            Self::Temporary => "temporary",
            Self::Activation => "activations",
            Self::Gradient => "gradients",
            Self::Unknown => "unknown",
        }
    }
}

/// What the memory at an address is for, from a hook that knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLabel {
    /// Where it begins.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Which memory.
    pub device: MemoryDevice,
    /// What it is for.
    pub category: MemoryCategory,
}
