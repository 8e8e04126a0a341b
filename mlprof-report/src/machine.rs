//! What a program ran on.

use crate::value::report_value;
use serde::Serialize;

report_value! {
/// The machine that a program ran on, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Machine from MachineParts {
    /// The operating system and the kind of processor: `linux x86_64`.
    pub system: String,
    /// The processor, as the operating system names it.
    pub cpu: Option<String>,
    /// How many cores the program may use.
    pub cores: Option<u64>,
    /// The machine's memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Its accelerators, as far as hooks have said what they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<MachineDevice>,
}
}

report_value! {
/// An accelerator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct MachineDevice from MachineDeviceParts {
    /// Its number, counted from 0.
    pub number: u32,
    /// As `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// All of its memory, in bytes.
    pub memory_bytes: u64,
}
}
