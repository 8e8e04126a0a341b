//! How this becomes a hook by itself, before `main`.

use std::sync::Arc;

use super::{counters, cupti, events};
use mlprof_core::Interest;
use mlprof_core::hook::{self, Instrumentation};

/// Counters are asked for while a profiler wants to know of devices.
struct Counters;

impl Instrumentation for Counters {
    /// Called under a lock, by threads that train: whoever is told here must not wait for anything.
    fn interest_changed(&self, interest: Interest) {
        counters::interest_changed(interest);
    }
}

/// Has CUPTI collect, and counters be asked for, whenever a profiler wants to know what devices do.
fn register() {
    counters::remember();
    mlprof_core::watcher::can_tell_of_devices(counters::now);
    hook::register_device_clock(&events::ActionClock);
    hook::register(Arc::new(Counters)).forever();
    hook::register(Arc::new(cupti::Activity::new())).forever();
}

// SAFETY: it allocates and takes a lock, for which neither the standard library nor an allocator needs
// `main`.
mlprof_events::before_main!(unsafe register);
