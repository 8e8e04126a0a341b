//! Machine that a program ran on.

use crate::value::report_value;
use serde::Serialize;

report_value! {
/// Machine that a program ran on, with unknown parts as `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Machine from MachineParts {
    /// Operating system and processor architecture: `linux x86_64`.
    pub system: String,
    /// Name of the processor, as reported by the operating system.
    pub cpu: Option<String>,
    /// Number of cores that the program may use.
    pub cores: Option<u64>,
    /// Total memory of the machine in bytes.
    pub memory_bytes: Option<u64>,
    /// Accelerators, if hooks reported them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<MachineDevice>,
}
}

report_value! {
/// An accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MachineDevice from MachineDeviceParts {
    /// Device number, from 0.
    pub number: u32,
    /// Name of the device, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Total memory of the device in bytes.
    pub memory_bytes: u64,
}
}
