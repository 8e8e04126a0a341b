//! NVIDIA's devices: what they did, as their own clock saw it, and how busy they were.

mod counters;

pub use counters::{DeviceCounters, InvalidRate};

/// What the active profiler wants has changed. Called under a lock, by threads that train: whoever is
/// told here must not wait for anything.
pub(crate) fn interest_changed(interest: crate::Interest) {
    counters::interest_changed(interest);
}
