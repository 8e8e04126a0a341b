//! What the devices are made of: asked once each.

use std::sync::OnceLock;

use super::occupancy::DeviceLimits;
use super::properties::{DeviceProperties, properties};
use profiler_core::hook::{DeviceDescription, describe_device};

/// So many devices are asked about; further ones have no limits.
const MOST: usize = 64;

/// What a device's multiprocessors have room for; `None` if its driver does not say. At the first call
/// traces and tables are told what the device is.
pub(crate) fn limits(device: u32) -> Option<&'static DeviceLimits> {
    static KNOWN: [OnceLock<Option<DeviceLimits>>; MOST] = [const { OnceLock::new() }; MOST];
    let ask = || {
        let properties = properties(device)?;
        describe_device(device, description(&properties));
        limits_of(&properties)
    };
    KNOWN.get(device as usize)?.get_or_init(ask).as_ref()
}

fn description(device: &DeviceProperties) -> DeviceDescription {
    DeviceDescription {
        name: device.name.clone(),
        platform: "CUDA".to_owned(),
        memory: device.memory,
        compute_capability: device.compute_capability,
        multiprocessors: device.multiprocessors,
        warp_size: device.warp_size,
        threads_per_block: device.threads_per_block,
        threads_per_multiprocessor: device.threads_per_multiprocessor,
        registers_per_multiprocessor: device.registers_per_multiprocessor,
        registers_per_block: device.registers_per_block,
        shared_memory_per_multiprocessor: device.shared_memory_per_multiprocessor,
        shared_memory_per_block: device.shared_memory_per_block,
    }
}

/// Nothing if the driver is too old to say how many blocks fit.
fn limits_of(device: &DeviceProperties) -> Option<DeviceLimits> {
    let small = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    (device.blocks_per_multiprocessor > 0).then(|| DeviceLimits {
        warp_size: device.warp_size,
        max_threads_per_multiprocessor: device.threads_per_multiprocessor,
        max_blocks_per_multiprocessor: device.blocks_per_multiprocessor,
        registers_per_multiprocessor: device.registers_per_multiprocessor,
        shared_memory_per_multiprocessor: small(device.shared_memory_per_multiprocessor),
        shared_memory_reserved_per_block: small(device.reserved_shared_memory_per_block),
        multiprocessors: device.multiprocessors,
        compute_capability: device.compute_capability,
    })
}
