//! Descriptions of devices: name, platform, memory and limits.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::forking::apart_from_forks;

/// Properties of a device as reported by its driver. A number is 0 if the driver does not report
/// it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceDescription {
    /// Name of the device, such as `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Platform name shown in tables: `CUDA`, …
    pub platform: String,
    /// Total memory in bytes.
    pub memory: u64,
    /// Compute capability, such as `(9, 0)`.
    pub compute_capability: (u32, u32),
    /// Number of multiprocessors.
    pub multiprocessors: u32,
    /// Number of threads that run in lockstep.
    pub warp_size: u32,
    /// Maximum number of threads in a block.
    pub threads_per_block: u32,
    /// Maximum number of threads that a multiprocessor runs at the same time.
    pub threads_per_multiprocessor: u32,
    /// Number of registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Maximum number of registers of a block.
    pub registers_per_block: u32,
    /// Shared memory of a multiprocessor, in bytes.
    pub shared_memory_per_multiprocessor: u64,
    /// Maximum shared memory of a block without opting in to more, in bytes.
    pub shared_memory_per_block: u64,
}

/// Properties of a device that hooks have declared.
struct DeclaredDevice {
    description: Option<DeviceDescription>,
    /// Total memory in bytes as reported by the sampler of the device's counters. The sampler
    /// measures used memory on the same basis.
    sampled_memory: Option<u64>,
}

impl DeclaredDevice {
    const fn new() -> Self {
        Self { description: None, sampled_memory: None }
    }

    /// Returns the total memory in bytes, if it was declared.
    fn memory(&self) -> Option<u64> {
        let described = self.description.as_ref().map(|description| description.memory);
        self.sampled_memory.or(described).filter(|bytes| *bytes > 0)
    }
}

static KNOWN: RwLock<BTreeMap<u32, DeclaredDevice>> = RwLock::new(BTreeMap::new());

fn change(device: u32, change: impl FnOnce(&mut DeclaredDevice)) {
    apart_from_forks(|| {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        change(known.entry(device).or_insert(DeclaredDevice::new()));
    });
}

/// Declares the total memory of a device in bytes. It is for hooks that sample a device's counters.
pub fn declare_device_memory(device: u32, bytes: u64) {
    change(device, |known| known.sampled_memory = Some(bytes));
}

/// Returns the total memory of a device in bytes, if a hook declared it.
pub fn device_memory(device: u32) -> Option<u64> {
    apart_from_forks(|| {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&device).and_then(DeclaredDevice::memory)
    })
}

/// Declares the properties of a device, which traces and tables then show.
pub fn describe_device(device: u32, description: DeviceDescription) {
    change(device, |known| known.description = Some(description));
}

/// Returns the declared devices by their indices. The memory of each is the one that
/// [`device_memory`] returns.
pub fn descriptions() -> BTreeMap<u32, DeviceDescription> {
    let described = |(device, known): (&u32, &DeclaredDevice)| {
        let memory = known.memory().unwrap_or(0);
        Some((*device, DeviceDescription { memory, ..known.description.clone()? }))
    };
    apart_from_forks(|| {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(described).collect()
    })
}

/// Returns the platform name shown in tables, if all described devices have the same one.
pub fn platform() -> Option<String> {
    apart_from_forks(|| {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let described = known.values().filter_map(|device| device.description.as_ref());
        let mut platforms = described.map(|device| &device.platform);
        let first = platforms.next().filter(|first| !first.is_empty())?;
        platforms.all(|other| other == first).then(|| first.clone())
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Checks that a device has one memory size. The test uses device indices that other tests do
    /// not describe.
    #[test]
    fn a_device_has_one_size_whoever_asks() {
        let [described, sampled, both] = [7_001, 7_002, 7_003];
        let description = |memory| DeviceDescription { memory, ..DeviceDescription::default() };
        describe_device(described, description(80));
        declare_device_memory(sampled, 40);
        declare_device_memory(both, 20);
        describe_device(both, description(21));
        let sizes = [described, sampled, both, 7_004].map(device_memory);
        assert_eq!(sizes, [Some(80), Some(40), Some(20), None]);
        let known = descriptions();
        let sizes = [described, sampled, both].map(|device| known.get(&device).map(|it| it.memory));
        assert_eq!(sizes, [Some(80), None, Some(20)]);
    }
}
