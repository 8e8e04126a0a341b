//! Measured peaks of a machine.

use serde::{Deserialize, Serialize};

use super::processor::Processor;

/// Peaks of this machine's processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peaks {
    /// Version of this layout.
    pub schema_version: u32,
    /// Measured processor.
    pub processor: Processor,
    /// Instruction set of the kernels.
    pub kernel: String,
    /// Time that the measurement took, in seconds.
    pub measured_in_seconds: f64,
    /// Matrix products by type, on one core and on all cores.
    pub products: Vec<ProductPeak>,
    /// Bandwidth by working set, on one core and on all cores.
    pub bandwidth: Vec<BandwidthPoint>,
    /// Time of a call that only creates and frees a small output, in seconds.
    pub empty_call_seconds: f64,
}

/// Peak of matrix products.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProductPeak {
    /// Type of the elements: `f32` or `f64`.
    pub dtype: String,
    /// Number of threads.
    pub threads: u64,
    /// Floating-point operations.
    pub flops: Rate,
}

/// Bandwidth for one working set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BandwidthPoint {
    /// Number of threads, each with its own part of the working set.
    pub threads: u64,
    /// Working set of all threads in bytes.
    pub working_set_bytes: u64,
    /// Bytes read.
    pub read: Rate,
    /// Bytes written.
    pub write: Rate,
    /// Bytes read and written by copying one half of the working set to the other half.
    pub copy: Rate,
}

/// A rate of the fastest of several rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Units per second.
    pub per_second: f64,
    /// Difference between the fastest and the slowest round, as a share of the fastest.
    pub spread: f64,
}

impl BandwidthPoint {
    /// Returns the rate of the fastest kind of transfer.
    pub fn best(&self) -> f64 {
        [self.read, self.write, self.copy].iter().map(|rate| rate.per_second).fold(0.0, f64::max)
    }
}

impl Peaks {
    /// Current version of the layout.
    pub const SCHEMA_VERSION: u32 = 1;
}
