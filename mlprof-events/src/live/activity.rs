//! What a process does in detail: its actions, its threads, its memory.

use serde::{Deserialize, Serialize};

use crate::ActionKind;

/// What threads do while somebody [follows](super::Request::Follow) them. In each list of actions what is around an action
/// stands before it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Activity {
    /// So many of the last steps it is about: up to 144, fewer if the stage began, or somebody began to follow, later.
    #[serde(default)]
    pub steps: u64,
    /// Actions and modules, each at its place inside of others: 512 places at most.
    #[serde(default)]
    pub actions: Vec<ActionState>,
    /// So many calls were of further places.
    #[serde(default)]
    pub left_out: u64,
    /// Threads that have called anything and live.
    #[serde(default)]
    pub threads: Vec<ThreadState>,
    /// What devices show now, where something asks them: a CUDA build, and NVIDIA's driver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterState>,
}

/// What a device shows of one of its counters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CounterState {
    /// Which device, counted from 0.
    pub device: u32,
    /// [Which counter](crate::DeviceCounter::name): `utilization`, `memory used`, `power`, …
    pub counter: String,
    /// What it showed last.
    pub value: f64,
    /// What that is counted in: `%`, `bytes`, `W`, `°C` or `MHz`.
    pub unit: String,
}

/// An action, at one place inside of others. What goes on from step to step, such as an epoch, stands beside what is inside
/// of it, and not around it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionState {
    /// Its name.
    pub name: String,
    /// An action or a module.
    pub kind: ActionKind,
    /// What is around it, by its number in the list; none if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub around: Option<usize>,
    /// Calls that ended during the last steps, on all threads.
    pub calls: u64,
    /// How long they took together, in seconds.
    pub seconds: f64,
    /// The same since the stage began, or since somebody followed if that was later.
    pub stage_calls: u64,
    /// How long those took together, in seconds.
    pub stage_seconds: f64,
    /// The median of all calls since somebody followed, in seconds, at most a tenth too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_seconds: Option<f64>,
    /// What 99 of 100 of them do not exceed, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadState {
    /// Its name.
    pub thread: String,
    /// So many actions are open, of those that began while somebody followed.
    pub open: u64,
    /// The innermost one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Since that one's start, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// The memory of a process, as Linux says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    /// What is in the machine's memory now, in bytes.
    pub resident_bytes: u64,
    /// The most that ever was, in bytes.
    pub peak_bytes: u64,
}
