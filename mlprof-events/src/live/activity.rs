//! Detailed activity of a process: its actions, threads and memory.

use serde::{Deserialize, Serialize};

use crate::ActionKind;

/// Activity of all threads while a client [follows](super::Request::Follow) the process. In each
/// list of actions, an enclosing action precedes the actions inside it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// Number of recent steps that the data covers: up to 144, or fewer if the stage began, or the
    /// first client connected, later.
    #[serde(default)]
    pub steps: u64,
    /// Actions and modules, separately for each nesting path, with at most 512 paths.
    #[serde(default)]
    pub actions: Vec<ActionState>,
    /// Number of calls with further paths, which are not listed.
    #[serde(default)]
    pub left_out: u64,
    /// Living threads that have called at least one action.
    #[serde(default)]
    pub threads: Vec<ThreadState>,
    /// Current counters of the devices. They are available in a CUDA build with NVIDIA's driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterState>,
}

/// Current value of one device counter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterState {
    /// Index of the device, counted from 0.
    pub device: u32,
    /// [Name of the counter](crate::DeviceCounter::name): `utilization`, `memory used`, `power`, …
    pub counter: String,
    /// Latest value.
    pub value: f64,
    /// Unit of the value: `%`, `bytes`, `W`, `°C` or `MHz`.
    pub unit: String,
}

/// An action at one nesting path. An action that spans several steps, such as an epoch, is listed
/// next to the actions inside it and does not enclose them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionState {
    /// Name of the action.
    pub name: String,
    /// Kind of the action: an action or a module.
    pub kind: ActionKind,
    /// Index of the enclosing action in the list, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<usize>,
    /// Number of calls that ended during the recent steps, on all threads.
    pub calls: u64,
    /// Total duration of these calls in seconds.
    pub seconds: f64,
    /// Number of calls since the stage began, or since a client connected if that was later.
    pub stage_calls: u64,
    /// Total duration of these calls in seconds.
    pub stage_seconds: f64,
    /// Median duration of all calls since a client connected, in seconds. It is overestimated by at
    /// most a tenth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<f64>,
    /// 99th percentile of these durations, in seconds, with the same accuracy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
}

/// Current state of a thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadState {
    /// Name of the thread.
    pub thread: String,
    /// Number of open actions, among those that began after a client connected.
    pub open: u64,
    /// Name of the innermost open action.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Time since the start of that action, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// Memory of a process as reported by Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    /// Current resident memory in bytes.
    pub resident_bytes: u64,
    /// Peak resident memory in bytes.
    pub peak_bytes: u64,
}
