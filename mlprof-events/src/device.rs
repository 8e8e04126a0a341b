//! What ran on a device.

use serde::{Deserialize, Serialize};

use super::{Context, KernelConfiguration, Timestamp};
use crate::Action;

/// What a device did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceActivity {
    /// Ran a kernel.
    Kernel,
    /// Copied memory.
    Copy,
    /// Filled memory.
    Fill,
    /// Compiled a kernel, or tried several to find the fastest, or kept a measurement going: work
    /// that a warm step does not have. Mostly the host's, for a device.
    Tuning,
    /// Made its driver, or the interface that the driver is profiled through, take time of the
    /// host: for buffers of records, or since a queue of commands was full. No work of the
    /// device's.
    Overhead,
    /// Was waited for: by the host, or by one stream for another. No work of the device's.
    Synchronization,
    /// Ran what a program has marked as one region of a stream, from its first kernel to its last,
    /// with the pauses between them. What ran in it has events of its own.
    Region,
}

impl DeviceActivity {
    /// Whether the device was busy with it: tuning and overhead are work of the host, waiting
    /// none, and what ran in a region has events of its own.
    #[doc(hidden)]
    pub const fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Fill)
    }

    /// Whether it is work of the host's, for a device.
    #[doc(hidden)]
    pub const fn is_host_work(self) -> bool {
        matches!(self, Self::Tuning | Self::Overhead)
    }
}

/// How the start and end of a device event were found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimingMethod {
    /// By the device's own clock.
    Device,
    /// By the device's own clock, as its driver wrote it down (CUPTI).
    Driver,
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
    /// Which of the driver's contexts on the device; 0 if that is not known.
    pub driver_context: u32,
    /// How a kernel was launched, if that is known.
    pub configuration: KernelConfiguration,
}

impl DeviceEvent {
    /// A kernel on stream 0 of device 0, timed by the device, of which nothing else is known.
    #[doc(hidden)]
    pub const fn new(action: Action, start: Timestamp, end: Timestamp) -> Self {
        Self {
            action,
            activity: DeviceActivity::Kernel,
            start,
            end,
            method: TimingMethod::Device,
            device: 0,
            stream: 0,
            correlation: 0,
            context: None,
            bytes: 0,
            driver_context: 0,
            configuration: KernelConfiguration::NONE,
        }
    }
}

/// A call of a device's driver or runtime library (`cudaLaunchKernel`, `cuMemcpyDtoHAsync`,
/// `cudaStreamSynchronize`), told of after it was made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriverCall {
    /// Its name, an action of kind [`Launch`](crate::ActionKind::Launch).
    pub action: Action,
    /// The thread that made it, by the number that the operating system knows the thread by.
    pub thread: u64,
    /// When it began. A call belongs to the scope of its thread that was open then.
    pub start: Timestamp,
    /// When it came back.
    pub end: Timestamp,
    /// What the [device events](DeviceEvent::correlation) that it led to have, too; 0: none.
    pub correlation: u32,
}

/// Memory of a device that a thread allocated or freed, told of afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastMemoryChange {
    /// When.
    pub time: Timestamp,
    /// The thread, by the number that the operating system knows it by.
    pub thread: u64,
    /// What.
    pub change: super::MemoryChange,
}
