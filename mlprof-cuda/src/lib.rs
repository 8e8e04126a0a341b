//! Device activity and counters of NVIDIA GPUs for mlprof.
//!
//! CUPTI collects kernels, copies and API calls while a profiler needs device data, without any
//! call in the program.
//!
//! [`profile_device`] and [`DeviceProfilerExt::profile_device`] time a region of a stream with CUDA
//! events. This costs the host one or two microseconds and never waits for the device. For
//! profilers that measure devices, [`measure_actions_on`] times every action on its streams in the
//! same way.
//!
//! [`DeviceCounters`] samples utilization, memory, power, temperature and clocks.

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

/// Sets whether CUPTI leaves the process at the end of each recording.
///
/// While CUPTI is loaded, each CUDA call takes longer, even after the recording. On an H100 a
/// launch took 4.0 to 5.4 µs instead of 3.3 to 4.1 µs. Loading CUPTI again for the next recording
/// takes about 10 ms.
///
/// By default, CUPTI leaves only if the thread that ends the recording made all CUDA calls in it.
/// CUPTI cannot leave safely while another thread is inside a CUDA call.
///
/// Use `true` only if the other threads of the program do not use CUDA at that moment. In tests
/// with four threads that launched continuously, CUPTI 11.8, 12.9 and 13.0 collected no data in
/// later recordings, which their reports stated. CUPTI 13.0 once terminated the process.
pub fn finalize_cupti(finalizes: bool) {
    cupti::set_departure(if finalizes { Departure::Always } else { Departure::Never });
}
