//! NVIDIA's devices: what they did, as their own clock saw it.

mod cupti;
mod devices;
mod driver;
mod library;
mod occupancy;
mod properties;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::hook;

/// Has CUPTI collect whenever a profiler wants to know what devices do. Once in a process.
pub(crate) fn install() {
    static INSTALLED: OnceLock<()> = OnceLock::new();
    INSTALLED.get_or_init(|| hook::register(Arc::new(cupti::Activity::new())).forever());
}

/// Whether CUPTI is taken out of the process whenever a recording ends, so that nothing of it is left
/// to slow the program down; it is not by default, since getting it in again takes some 100 ms.
pub fn finalize_cupti(finalizes: bool) {
    cupti::FINALIZES.store(finalizes, Ordering::Relaxed);
}
