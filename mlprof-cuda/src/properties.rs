//! Properties of a device, as reported by the driver.

use super::driver::{Driver, Failure};
use mlprof_core::hook::DeviceDescription;

/// Properties of a device: the public description, and values that only the occupancy estimate
/// needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DeviceProperties {
    /// Description that is written to traces and tables.
    pub(crate) description: DeviceDescription,
    /// Maximum number of concurrent blocks per multiprocessor. 0 if the driver does not report it.
    pub(crate) blocks_per_multiprocessor: u32,
    /// Shared memory in bytes that the driver reserves per block.
    pub(crate) reserved_shared_memory_per_block: u32,
}

/// Attribute numbers of the driver API.
mod attribute {
    pub(crate) const MAX_THREADS_PER_BLOCK: i32 = 1;
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK: i32 = 8;
    pub(crate) const WARP_SIZE: i32 = 10;
    pub(crate) const MAX_REGISTERS_PER_BLOCK: i32 = 12;
    pub(crate) const MULTIPROCESSOR_COUNT: i32 = 16;
    pub(crate) const MAX_THREADS_PER_MULTIPROCESSOR: i32 = 39;
    pub(crate) const COMPUTE_CAPABILITY_MAJOR: i32 = 75;
    pub(crate) const COMPUTE_CAPABILITY_MINOR: i32 = 76;
    pub(crate) const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: i32 = 81;
    pub(crate) const MAX_REGISTERS_PER_MULTIPROCESSOR: i32 = 82;
    pub(crate) const MAX_BLOCKS_PER_MULTIPROCESSOR: i32 = 106;
    pub(crate) const RESERVED_SHARED_MEMORY_PER_BLOCK: i32 = 111;
}

/// Returns the properties of the device with this id. `None` if there is no driver or no such
/// device.
///
/// *Cost*: about 14 driver calls, which take a few microseconds. Callers should keep the result.
pub(crate) fn properties(device: u32) -> Option<DeviceProperties> {
    read(Driver::get().ok()?, device).ok()
}

fn read(driver: &Driver, number: u32) -> Result<DeviceProperties, Failure> {
    use attribute::*;
    let device = driver.device(number)?;
    let required = |attribute| driver.attribute(device, attribute);
    // Older drivers do not know these attributes.
    let newer = |attribute| driver.attribute(device, attribute).unwrap_or(0);
    Ok(DeviceProperties {
        description: DeviceDescription {
            name: driver.device_name(device)?,
            platform: "CUDA".to_owned(),
            memory: driver.device_memory(device)?,
            compute_capability: (
                required(COMPUTE_CAPABILITY_MAJOR)?,
                required(COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: required(MULTIPROCESSOR_COUNT)?,
            warp_size: required(WARP_SIZE)?,
            threads_per_block: required(MAX_THREADS_PER_BLOCK)?,
            threads_per_multiprocessor: required(MAX_THREADS_PER_MULTIPROCESSOR)?,
            registers_per_multiprocessor: required(MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            registers_per_block: required(MAX_REGISTERS_PER_BLOCK)?,
            shared_memory_per_multiprocessor: required(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?
                .into(),
            shared_memory_per_block: required(MAX_SHARED_MEMORY_PER_BLOCK)?.into(),
        },
        blocks_per_multiprocessor: newer(MAX_BLOCKS_PER_MULTIPROCESSOR),
        reserved_shared_memory_per_block: newer(RESERVED_SHARED_MEMORY_PER_BLOCK),
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Compares the numbers with another crate's bindings, which are generated from NVIDIA's
    /// headers.
    #[test]
    fn the_numbers_of_attributes_are_the_drivers() {
        use cudarc::driver::sys::CUdevice_attribute_enum as theirs;
        let pairs = [
            (attribute::MAX_THREADS_PER_BLOCK, theirs::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
            (
                attribute::MAX_SHARED_MEMORY_PER_BLOCK,
                theirs::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
            ),
            (attribute::WARP_SIZE, theirs::CU_DEVICE_ATTRIBUTE_WARP_SIZE),
            (
                attribute::MAX_REGISTERS_PER_BLOCK,
                theirs::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
            ),
            (attribute::MULTIPROCESSOR_COUNT, theirs::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            (
                attribute::MAX_THREADS_PER_MULTIPROCESSOR,
                theirs::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
            ),
            (
                attribute::COMPUTE_CAPABILITY_MAJOR,
                theirs::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            ),
            (
                attribute::COMPUTE_CAPABILITY_MINOR,
                theirs::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            ),
            (
                attribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                theirs::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
            ),
            (
                attribute::MAX_REGISTERS_PER_MULTIPROCESSOR,
                theirs::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
            ),
            (
                attribute::MAX_BLOCKS_PER_MULTIPROCESSOR,
                theirs::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
            ),
            (
                attribute::RESERVED_SHARED_MEMORY_PER_BLOCK,
                theirs::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
            ),
        ];
        for (ours, theirs) in pairs {
            assert_eq!(ours, theirs as i32, "{theirs:?}");
        }
    }
}
