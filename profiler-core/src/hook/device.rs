//! What ran on a device.

use serde::{Deserialize, Serialize};

use super::{Context, Timestamp};
use crate::Action;

/// What a device did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeviceActivity {
    /// Ran a kernel.
    Kernel,
    /// Copied memory.
    Copy,
    /// Filled memory.
    Fill,
    /// Compiled a kernel, or tried several to find the fastest: work that a warm step does not have.
    Tuning,
}

/// How the start and end of a device event were found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TimingMethod {
    /// By the device's own clock.
    Device,
    /// By the host's clock around a wait for the device: an upper bound.
    Host,
    /// Not at all: only that it was launched is known.
    None,
}

/// A kernel or a copy that ran on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceEvent {
    /// Its name, an action of kind [`Kernel`](crate::ActionKind::Kernel).
    pub action: Action,
    /// What it was.
    pub activity: DeviceActivity,
    /// When it began, on the host's time line.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// How `start` and `end` are known.
    pub method: TimingMethod,
    /// Which device, counted from 0.
    pub device: u32,
    /// Which stream (queue) of the device.
    pub stream: u32,
    /// The number that its [launch](super::OpStart::launch) had; 0 if that is not known.
    pub correlation: u32,
    /// What was open where its op was called; `None` if the launch says so, or nobody knows.
    pub context: Option<Context>,
    /// How many bytes were copied or filled; 0 for a kernel.
    pub bytes: u64,
}
