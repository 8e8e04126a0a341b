//! Cached properties of devices.

use std::sync::OnceLock;

use super::properties::{self, DeviceProperties};
use mlprof_core::hook::describe_device;

/// Maximum number of devices with known properties.
const MOST: usize = 64;

/// Returns the properties of a device, or `None` if its driver does not report them. The first call
/// also adds the device's description to traces and tables.
pub(crate) fn properties(device: u32) -> Option<&'static DeviceProperties> {
    static KNOWN: [OnceLock<Option<DeviceProperties>>; MOST] = [const { OnceLock::new() }; MOST];
    let ask = || {
        let properties = properties::properties(device)?;
        describe_device(device, properties.description.clone());
        Some(properties)
    };
    KNOWN.get(device as usize)?.get_or_init(ask).as_ref()
}
