//! NVIDIA's devices: what they did, as their own clock saw it.
//!
//! [`profile_device`] and [`DeviceProfilerExt::profile_device`] time a region of a stream by CUDA's
//! events, which costs the host a microsecond or two and makes nobody wait.

#[allow(dead_code, reason = "some functions are for those who describe devices")]
mod driver;
mod events;
#[allow(dead_code, reason = "for those who describe devices and kernels")]
mod properties;

pub use events::{
    ActiveDeviceScope, DeviceProfilerExt, DeviceScope, Stream, max_pending_regions, profile_device,
    set_max_pending_regions,
};
