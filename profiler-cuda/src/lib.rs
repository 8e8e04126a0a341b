//! NVIDIA's devices: what they did, as their own clock saw it, and how busy they were.
//!
//! Kernels, copies and calls are collected by CUPTI while a profiler wants to know what devices do:
//! there is nothing to call. [`profile_device`] and [`DeviceProfilerExt::profile_device`] time a region
//! of a stream by CUDA's events, which costs the host a microsecond or two and makes nobody wait.
//! [`DeviceCounters`] samples utilisation, memory, power, temperature and clocks.

mod counters;
mod cupti;
mod devices;
mod driver;
mod events;
mod library;
mod occupancy;
mod process_exit;
mod properties;
mod registration;
mod synchronize;

use std::sync::atomic::Ordering;

pub use self::events::{
    ActiveDeviceScope, DeviceProfilerExt, DeviceScope, Stream, max_pending_regions, profile_device,
    set_max_pending_regions,
};
pub use counters::{DeviceCounters, InvalidRate};

/// Whether CUPTI is taken out of the process whenever a recording ends, so that nothing of it is left
/// to slow the program down; it is not by default, since getting it in again takes some 100 ms.
pub fn finalize_cupti(finalizes: bool) {
    cupti::FINALIZES.store(finalizes, Ordering::Relaxed);
}
