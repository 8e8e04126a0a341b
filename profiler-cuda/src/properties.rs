//! What a device is made of.

use super::driver::{Driver, Failure};

/// What a device is made of, as the driver says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeviceProperties {
    /// As `NVIDIA H100 80GB HBM3`.
    pub(crate) name: String,
    /// Compute capability, as `(9, 0)`.
    pub(crate) compute_capability: (u32, u32),
    /// How many multiprocessors there are.
    pub(crate) multiprocessors: u32,
    /// Threads that run together in lockstep.
    pub(crate) warp_size: u32,
    /// The most threads that one block may have.
    pub(crate) threads_per_block: u32,
    /// The most threads that a multiprocessor has at work at one time.
    pub(crate) threads_per_multiprocessor: u32,
    /// The most blocks that a multiprocessor has at work at one time; 0 if the driver cannot say.
    pub(crate) blocks_per_multiprocessor: u32,
    /// Registers of 32 bits of a multiprocessor.
    pub(crate) registers_per_multiprocessor: u32,
    /// The most registers that one block may have.
    pub(crate) registers_per_block: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub(crate) shared_memory_per_multiprocessor: u64,
    /// The most shared memory that one block has without asking for more, in bytes.
    pub(crate) shared_memory_per_block: u64,
    /// The most shared memory that one block has if it asks, in bytes; 0 if the driver cannot say.
    pub(crate) shared_memory_per_block_at_most: u64,
    /// Shared memory that the driver takes for itself, per block, in bytes.
    pub(crate) reserved_shared_memory_per_block: u64,
    /// All memory, in bytes.
    pub(crate) memory: u64,
}

/// The driver's numbers of what it can be asked for.
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
    pub(crate) const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: i32 = 97;
    pub(crate) const MAX_BLOCKS_PER_MULTIPROCESSOR: i32 = 106;
    pub(crate) const RESERVED_SHARED_MEMORY_PER_BLOCK: i32 = 111;
}

/// What the device of this number is made of; `None` if there is no driver, or no such device.
///
/// *Cost*: some 15 calls of the driver, a few microseconds; keep what it returns.
pub(crate) fn properties(device: u32) -> Option<DeviceProperties> {
    read(Driver::get().ok()?, device).ok()
}

fn read(driver: &Driver, number: u32) -> Result<DeviceProperties, Failure> {
    use attribute::*;
    let device = driver.device(number)?;
    let required = |attribute| driver.attribute(device, attribute);
    // What only newer drivers know.
    let newer = |attribute| driver.attribute(device, attribute).unwrap_or(0);
    Ok(DeviceProperties {
        name: driver.device_name(device)?,
        compute_capability: (
            required(COMPUTE_CAPABILITY_MAJOR)?,
            required(COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: required(MULTIPROCESSOR_COUNT)?,
        warp_size: required(WARP_SIZE)?,
        threads_per_block: required(MAX_THREADS_PER_BLOCK)?,
        threads_per_multiprocessor: required(MAX_THREADS_PER_MULTIPROCESSOR)?,
        blocks_per_multiprocessor: newer(MAX_BLOCKS_PER_MULTIPROCESSOR),
        registers_per_multiprocessor: required(MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        registers_per_block: required(MAX_REGISTERS_PER_BLOCK)?,
        shared_memory_per_multiprocessor: required(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?.into(),
        shared_memory_per_block: required(MAX_SHARED_MEMORY_PER_BLOCK)?.into(),
        shared_memory_per_block_at_most: newer(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN).into(),
        reserved_shared_memory_per_block: newer(RESERVED_SHARED_MEMORY_PER_BLOCK).into(),
        memory: driver.device_memory(device)?,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Another crate's bindings, made from NVIDIA's own headers.
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
                attribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                theirs::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
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
