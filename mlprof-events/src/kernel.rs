//! How kernels are launched.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::forking::apart_from_forks;

/// How a kernel was launched, and what it needs of a multiprocessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct KernelLaunch {
    /// How many blocks in each direction.
    pub grid: [u32; 3],
    /// How many threads a block has in each direction.
    pub block: [u32; 3],
    /// Registers that each thread has.
    pub registers_per_thread: u32,
    /// Shared memory of each block, static and dynamic together, in bytes.
    pub shared_memory: u32,
    /// How many of the threads that a multiprocessor has room for could run at once, in percent: an
    /// estimate from block size, registers and shared memory, as the device's limits are, and from how
    /// many blocks the grid has for each multiprocessor (Kineto's `est. achieved occupancy %`). `None`
    /// if those are not known.
    pub occupancy: Option<u8>,
    /// Blocks of this kernel per multiprocessor of the device, in thousandths: below 1,000 some of
    /// them had nothing to do. `None` if the device is not known.
    pub blocks_per_multiprocessor: Option<u32>,
    /// Warps of this kernel per multiprocessor, in thousandths.
    pub warps_per_multiprocessor: Option<u32>,
}

/// A [`KernelLaunch`] as a 4-byte handle: each different one is kept once, for the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct KernelConfiguration(u32);

/// So many are kept; kernels launched in yet another way have none.
const MOST: usize = 1 << 18;

#[derive(Default)]
struct Known {
    launches: Vec<KernelLaunch>,
    numbers: HashMap<KernelLaunch, u32>,
}

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl KernelConfiguration {
    /// Not known.
    #[doc(hidden)]
    pub const NONE: Self = Self(0);

    /// The handle of a launch; [`NONE`](Self::NONE) if there are 262,144 others. *Cost*: a look-up
    /// under a lock.
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

    /// How the kernel was launched, if that is known.
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
