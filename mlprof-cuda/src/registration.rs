//! How this becomes a hook by itself, before `main`.

use std::sync::Arc;

use super::{counters, cupti, events};
use mlprof_core::Interest;
use mlprof_core::hook::{self, Instrumentation};

/// Instrumentation that starts counters while a profiler needs device data.
struct Counters;

impl Instrumentation for Counters {
    /// Handles a change of interest. Training threads call it with a lock held, so it must not
    /// block.
    fn interest_changed(&self, interest: Interest) {
        counters::interest_changed(interest);
    }
}

/// Registers CUPTI and the counters, which become active whenever a profiler needs device data.
fn register() {
    counters::remember();
    mlprof_core::watcher::can_tell_of_devices(counters::now);
    hook::register_device_clock(&events::ActionClock);
    hook::register(Arc::new(Counters)).forever();
    hook::register(Arc::new(cupti::Activity::new())).forever();
}

// SAFETY: `register` reads the environment, allocates memory and takes locks. The standard library
// supports all of this before `main`.
mlprof_events::before_main!(unsafe register);
