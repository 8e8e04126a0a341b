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

/// What hooks have said of a device.
struct Known {
    description: Option<DeviceDescription>,
    /// All memory as whoever samples it says, who counts what is taken of it in the same way.
    sampled_memory: Option<u64>,
}

impl Known {
    const fn new() -> Self {
        Self { description: None, sampled_memory: None }
    }

    /// All memory, in bytes, if anybody has said it.
    fn memory(&self) -> Option<u64> {
        let described = self.description.as_ref().map(|description| description.memory);
        self.sampled_memory.or(described).filter(|bytes| *bytes > 0)
    }
}

static KNOWN: RwLock<BTreeMap<u32, Known>> = RwLock::new(BTreeMap::new());

fn change(device: u32, change: impl FnOnce(&mut Known)) {
    apart_from_forks(|| {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        change(known.entry(device).or_insert(Known::new()));
    });
}

/// For hooks that sample a device's counters: all the memory that it has, in bytes.
pub fn declare_device_memory(device: u32, bytes: u64) {
    change(device, |known| known.sampled_memory = Some(bytes));
}

/// All the memory of a device, in bytes, if a hook has said it.
pub fn device_memory(device: u32) -> Option<u64> {
    apart_from_forks(|| {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        known.get(&device).and_then(Known::memory)
    })
}

/// For hooks that know what a device is made of: traces and tables say it.
pub fn describe_device(device: u32, description: DeviceDescription) {
    change(device, |known| known.description = Some(description));
}

/// What hooks have said of devices, by their numbers; of their memory what [`device_memory`] says.
pub fn descriptions() -> BTreeMap<u32, DeviceDescription> {
    let described = |(device, known): (&u32, &Known)| {
        let memory = known.memory().unwrap_or(0);
        Some((*device, DeviceDescription { memory, ..known.description.clone()? }))
    };
    apart_from_forks(|| {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        known.iter().filter_map(described).collect()
    })
}

/// What tables call the devices, if all that are known are of one platform.
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

    /// Of devices that no other test describes.
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
