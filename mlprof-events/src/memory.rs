//! Memory that a framework allocates and frees.

use serde::{Deserialize, Serialize};

/// Device that memory belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryDevice {
    /// Host memory.
    Cpu,
    /// Memory of the accelerator with this index, counted from 0.
    Accelerator(u16),
}

/// An allocation or deallocation by the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryChange {
    /// Start address of the memory; 0 if unknown.
    pub address: u64,
    /// Number of bytes, negative for a deallocation.
    pub bytes: i64,
    /// Total allocated memory on the device after the change, in bytes; 0 if unknown.
    pub total_allocated: u64,
    /// Device memory reserved by the framework, both used and free, in bytes; 0 if unknown.
    pub total_reserved: u64,
    /// Device that the memory belongs to.
    pub device: MemoryDevice,
}

/// Purpose of memory, in the terms of torch's memory timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryCategory {
    /// Trainable parameters.
    Parameter,
    /// State that the optimizer keeps between steps.
    OptimizerState,
    /// Input batches.
    Input,
    /// Memory that is freed in the op that allocated it, or in the same forward, backward or
    /// optimizer step.
    Temporary,
    /// Memory that is allocated in the forward pass and kept for the backward pass.
    Activation,
    /// Memory that is allocated in the backward pass for the optimizer.
    Gradient,
    /// Unknown purpose.
    Unknown,
}

impl MemoryCategory {
    /// Returns the category in words, for use in a sentence: `optimizer state`.
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

/// Purpose of the memory at an address, reported by a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLabel {
    /// Start address of the memory.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Device that the memory belongs to.
    pub device: MemoryDevice,
    /// Purpose of the memory.
    pub category: MemoryCategory,
}
