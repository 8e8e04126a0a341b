//! What is known of devices themselves.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::forking::apart_from_forks;

/// What a device is made of, as its driver says; 0 where it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceDescription {
    /// As `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// What tables call such a device: `CUDA`, …
    pub platform: String,
    /// All memory, in bytes.
    pub memory: u64,
    /// Compute capability, as `(9, 0)`.
    pub compute_capability: (u32, u32),
    /// How many multiprocessors there are.
    pub multiprocessors: u32,
    /// Threads that run in lockstep.
    pub warp_size: u32,
    /// The most threads that one block may have.
    pub threads_per_block: u32,
    /// The most threads that a multiprocessor has at work at one time.
    pub threads_per_multiprocessor: u32,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// The most registers that one block may have.
    pub registers_per_block: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_memory_per_multiprocessor: u64,
    /// The most shared memory that one block has without asking for more, in bytes.
    pub shared_memory_per_block: u64,
}

static KNOWN: RwLock<BTreeMap<u32, DeviceDescription>> = RwLock::new(BTreeMap::new());

static MEMORY: RwLock<BTreeMap<u32, u64>> = RwLock::new(BTreeMap::new());

/// For hooks that sample a device's counters: all the memory that it has, in bytes.
pub fn declare_device_memory(device: u32, bytes: u64) {
    apart_from_forks(|| {
        MEMORY.write().unwrap_or_else(PoisonError::into_inner).insert(device, bytes);
    });
}

/// All the memory of a device, in bytes, if a hook has said it.
pub fn device_memory(device: u32) -> Option<u64> {
    apart_from_forks(|| MEMORY.read().unwrap_or_else(PoisonError::into_inner).get(&device).copied())
}

/// For hooks that know what a device is made of: traces and tables say it.
pub fn describe_device(device: u32, description: DeviceDescription) {
    apart_from_forks(|| {
        KNOWN.write().unwrap_or_else(PoisonError::into_inner).insert(device, description);
    });
}

/// What hooks have said of devices, by their numbers.
pub fn descriptions() -> BTreeMap<u32, DeviceDescription> {
    apart_from_forks(|| KNOWN.read().unwrap_or_else(PoisonError::into_inner).clone())
}

/// What tables call the devices, if all that are known are of one platform.
pub fn platform() -> Option<String> {
    apart_from_forks(|| {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let mut platforms = known.values().map(|device| &device.platform);
        let first = platforms.next().filter(|first| !first.is_empty())?;
        platforms.all(|other| other == first).then(|| first.clone())
    })
}
