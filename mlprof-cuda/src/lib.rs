//! NVIDIA's devices: what they did, as their own clock saw it, and how busy they were.
//!
//! Kernels, copies and calls are collected by CUPTI while a profiler wants to know what devices do:
//! there is nothing to call. [`profile_device`] and [`DeviceProfilerExt::profile_device`] time a region
//! of a stream by CUDA's events, which costs the host a microsecond or two and makes nobody wait; so are
//! actions, for profilers that measure devices, on the streams of [`measure_actions_on`].
//! [`DeviceCounters`] samples utilisation, memory, power, temperature and clocks.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod counters;
mod cupti;
mod devices;
mod driver;
mod events;
mod locate_cupti;
mod occupancy;
mod process_exit;
mod properties;
mod registration;
mod synchronize;

use self::cupti::Departure;
pub use self::events::{
    ActiveDeviceScope, DeviceProfilerExt, DeviceScope, Stream, max_pending_regions,
    measure_actions_on, profile_device, set_max_pending_regions,
};
pub use counters::{DeviceCounters, InvalidRate};

/// Decides whether CUPTI leaves the process whenever a recording ends.
///
/// While CUPTI stays, each call of CUDA's takes longer, also after the recording: on an H100 a
/// launch took 4.0 to 5.4 µs instead of 3.3 to 4.1 µs. Coming back for the next recording takes
/// some 10 ms.
///
/// Without a call of this function CUPTI leaves if the thread that ends the recording made all
/// calls of CUDA's in it. It stays where other threads made some, since CUPTI cannot leave safely
/// while a thread is inside such a call. Taken out beside four threads that launched all the time,
/// CUPTI 11.8, 12.9 and 13.0 collected nothing in later recordings (which their reports say), and
/// 13.0 once ended the process: `true` is for programs whose other threads do not use CUDA at that
/// moment.
pub fn finalize_cupti(finalizes: bool) {
    cupti::set_departure(if finalizes { Departure::Always } else { Departure::Never });
}
