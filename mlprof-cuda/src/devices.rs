//! What the devices are made of: asked once each.

use std::sync::OnceLock;

use super::properties::{self, DeviceProperties};
use mlprof_core::hook::describe_device;

/// So many devices are asked about; of further ones nothing is known.
const MOST: usize = 64;

/// What a device is made of; `None` if its driver does not say. At the first call traces and tables are
/// told.
pub(crate) fn properties(device: u32) -> Option<&'static DeviceProperties> {
    static KNOWN: [OnceLock<Option<DeviceProperties>>; MOST] = [const { OnceLock::new() }; MOST];
    let ask = || {
        let properties = properties::properties(device)?;
        describe_device(device, properties.description.clone());
        Some(properties)
    };
    KNOWN.get(device as usize)?.get_or_init(ask).as_ref()
}
