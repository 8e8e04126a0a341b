//! Launch configurations of kernels.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::forking::apart_from_forks;

/// Launch configuration of a kernel and the multiprocessor resources that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct KernelLaunch {
    /// Number of blocks in each dimension.
    pub grid: [u32; 3],
    /// Number of threads of a block in each dimension.
    pub block: [u32; 3],
    /// Number of registers per thread.
    pub registers_per_thread: u32,
    /// Static and dynamic shared memory per block, in bytes.
    pub shared_memory: u32,
    /// Estimated occupancy in percent: the share of a multiprocessor's thread slots that the kernel
    /// can use at once (Kineto's `est. achieved occupancy %`). It is computed from block size,
    /// registers, shared memory, the device's limits and the number of blocks per multiprocessor.
    /// `None` if these are unknown.
    pub occupancy: Option<u8>,
    /// Blocks of this kernel per multiprocessor of the device, in thousandths. Below 1,000 some
    /// multiprocessors were idle. `None` if the device is unknown.
    pub blocks_per_multiprocessor: Option<u32>,
    /// Warps of this kernel per multiprocessor, in thousandths.
    pub warps_per_multiprocessor: Option<u32>,
}

/// A [`KernelLaunch`] as a 4-byte handle. Each distinct launch configuration is stored once, for
/// the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KernelConfiguration(u32);

/// Maximum number of stored configurations. Kernels with further configurations have none.
const MOST: usize = 1 << 18;

#[derive(Default)]
struct NumberedLaunches {
    launches: Vec<KernelLaunch>,
    numbers: HashMap<KernelLaunch, u32>,
}

static KNOWN: LazyLock<RwLock<NumberedLaunches>> = LazyLock::new(RwLock::default);

impl KernelConfiguration {
    /// Handle for an unknown configuration.
    #[doc(hidden)]
    pub const NONE: Self = Self(0);

    /// Returns the handle of a launch, or [`NONE`](Self::NONE) if 262,144 others are stored.
    /// *Cost*: a look-up under a lock.
    #[doc(hidden)]
    pub fn new(launch: &KernelLaunch) -> Self {
        apart_from_forks(|| {
            let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(number) = known.numbers.get(launch) {
                return Self(*number);
            }
            drop(known);
            let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(number) = known.numbers.get(launch) {
                return Self(*number);
            }
            if known.launches.len() >= MOST {
                return Self::NONE;
            }
            known.launches.push(*launch);
            let number = known.launches.len() as u32; // at most MOST
            known.numbers.insert(*launch, number);
            Self(number)
        })
    }

    /// Returns the launch configuration, if it is known.
    #[doc(hidden)]
    pub fn launch(self) -> Option<KernelLaunch> {
        let index = (self.0 as usize).checked_sub(1)?;
        apart_from_forks(|| {
            let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
            known.launches.get(index).copied()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_launch_is_kept_once_and_read_as_it_was() {
        let launch = KernelLaunch { grid: [1, 2, 3], occupancy: Some(50), ..Default::default() };
        let other = KernelLaunch { occupancy: None, ..launch };
        let handle = KernelConfiguration::new(&launch);
        assert_eq!(handle, KernelConfiguration::new(&launch));
        assert_ne!(handle, KernelConfiguration::new(&other));
        assert_eq!(handle.launch(), Some(launch));
        assert_eq!(KernelConfiguration::new(&other).launch(), Some(other));
        assert_eq!(KernelConfiguration::NONE.launch(), None);
    }
}
