//! Events on a device: kernels, copies and other activities.

use serde::{Deserialize, Serialize};

use super::{Context, KernelConfiguration, Timestamp};
use crate::Action;

/// Type of activity on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceActivity {
    /// The device ran a kernel.
    Kernel,
    /// The device copied memory.
    Copy,
    /// The device filled memory.
    Fill,
    /// A kernel was compiled, several kernels were tried to find the fastest, or a measurement was
    /// kept going. A warm step has no such work. Most of it is done by the host for the device.
    Tuning,
    /// The driver or its profiling interface took host time. Examples are buffers for records and
    /// waiting for space in a full command queue. It is not work of the device.
    Overhead,
    /// The host or another stream waited for the device. It is not work of the device.
    Synchronization,
    /// A region of a stream that the program marked, from its first kernel to its last, with the
    /// pauses between them. The work inside a region has events of its own.
    Region,
}

impl DeviceActivity {
    /// Returns `true` if the device was busy. Tuning and overhead are work of the host, waiting is
    /// not work, and the work inside a region has events of its own.
    #[doc(hidden)]
    pub const fn is_device_work(self) -> bool {
        matches!(self, Self::Kernel | Self::Copy | Self::Fill)
    }

    /// Returns `true` for work that the host does for a device.
    #[doc(hidden)]
    pub const fn is_host_work(self) -> bool {
        matches!(self, Self::Tuning | Self::Overhead)
    }
}

/// Method by which the start and end of a device event were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimingMethod {
    /// The device's own clock.
    Device,
    /// The device's own clock, recorded by its driver (CUPTI).
    Driver,
    /// The host's clock around a wait for the device; the duration is an upper bound.
    Host,
    /// The event was not timed. Only its launch is known.
    None,
}

/// A kernel, a copy or another activity on a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceEvent {
    /// Name of the event, an action of kind [`Kernel`](crate::ActionKind::Kernel).
    pub action: Action,
    /// Type of activity.
    pub activity: DeviceActivity,
    /// Start of the event on the host's time line.
    pub start: Timestamp,
    /// End of the event on the host's time line.
    pub end: Timestamp,
    /// Method by which `start` and `end` were measured.
    pub method: TimingMethod,
    /// Index of the device, counted from 0.
    pub device: u32,
    /// Number of the device's stream (queue).
    pub stream: u32,
    /// Correlation number of the event's [launch](super::OpStart::launch); 0 if unknown.
    pub correlation: u32,
    /// Actions that were open at the call site of the event's op; `None` if the launch provides
    /// them or they are unknown.
    pub context: Option<Context>,
    /// Number of bytes copied or filled; 0 for a kernel.
    pub bytes: u64,
    /// Number of the driver's context on the device; 0 if unknown.
    pub driver_context: u32,
    /// Launch configuration of a kernel, if known.
    pub configuration: KernelConfiguration,
}

impl DeviceEvent {
    /// Creates a kernel event on stream 0 of device 0, timed by the device, with all other details
    /// unknown.
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
/// `cudaStreamSynchronize`), reported after the call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DriverCall {
    /// Name of the call, an action of kind [`Launch`](crate::ActionKind::Launch).
    pub action: Action,
    /// Operating system's id of the calling thread.
    pub thread: u64,
    /// Start of the call. A call belongs to the scope of its thread that was open at that moment.
    pub start: Timestamp,
    /// End of the call.
    pub end: Timestamp,
    /// Correlation number of the [device events](DeviceEvent::correlation) that the call caused; 0
    /// if there are none.
    pub correlation: u32,
}

/// A thread's allocation or deallocation of device memory, reported afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastMemoryChange {
    /// Time of the change.
    pub time: Timestamp,
    /// Operating system's id of the thread.
    pub thread: u64,
    /// Details of the allocation or deallocation.
    pub change: super::MemoryChange,
}
