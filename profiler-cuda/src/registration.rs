//! How this becomes a hook by itself, before `main`.

use std::sync::Arc;

use super::{counters, cupti};
use profiler_core::Interest;
use profiler_core::hook::{self, Source};

/// Counters are asked for while a profiler wants to know of devices.
struct Counters;

impl Source for Counters {
    /// Called under a lock, by threads that train: whoever is told here must not wait for anything.
    fn interest_changed(&self, interest: Interest) {
        counters::interest_changed(interest);
    }
}

/// Has CUPTI collect, and counters be asked for, whenever a profiler wants to know what devices do.
extern "C" fn register() {
    hook::register(Arc::new(Counters)).forever();
    hook::register(Arc::new(cupti::Activity::new())).forever();
}

// SAFETY: all three sections are lists of addresses of functions of the C calling convention, which are
// called one after the other before `main`; this adds one. Linux's passes it arguments that it does not
// take, as C allows and the platform's convention makes harmless. It allocates and takes a lock, for
// which neither the standard library nor an allocator needs `main`.
//
// rustc names what is `#[used]` in the link of every program and library that this crate is part of, so
// that its object file is linked even if nothing else of it is.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static AT_LOAD: extern "C" fn() = register;
