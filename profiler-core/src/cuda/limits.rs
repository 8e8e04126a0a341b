//! What a kernel may take of a device.

use std::sync::OnceLock;

use super::occupancy::DeviceLimits;

/// So many devices are asked about; further ones have no limits.
const MOST_DEVICES: usize = 64;

/// What a device's multiprocessors have room for; `None` if its driver does not say. Asked once.
pub(super) fn of(device: u32) -> Option<&'static DeviceLimits> {
    static KNOWN: [OnceLock<Option<DeviceLimits>>; MOST_DEVICES] =
        [const { OnceLock::new() }; MOST_DEVICES];
    let known = KNOWN.get(device as usize)?;
    known.get_or_init(|| super::driver_limits(device)).as_ref()
}
