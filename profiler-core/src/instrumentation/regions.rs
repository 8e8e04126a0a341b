//! Regions of a device, on their way to those who listened when they were opened.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::patience::wait_for_devices;

/// Hooks that measure regions: CUDA's events, burn's devices.
const HOOKS: usize = 4;

/// Functions that bring regions to their sinks, one per hook.
static DELIVERIES: [OnceLock<fn()>; HOOKS] = [const { OnceLock::new() }; HOOKS];

static MAX_PENDING: AtomicUsize = AtomicUsize::new(4096);

/// Calls `deliver` from here on when [all regions](deliver_regions) are to arrive. A hook calls this with
/// one function, as often as it likes.
#[doc(hidden)]
pub fn add_region_delivery(deliver: fn()) {
    for place in &DELIVERIES {
        if *place.get_or_init(|| deliver) as usize == deliver as usize {
            return;
        }
    }
}

/// Brings all regions to their sinks whose guards have been dropped. [Waits for the device](wait_for_devices),
/// if any is under way; returns whether it was over with all of them.
pub(crate) fn deliver_regions() -> bool {
    // Hooks take the places from the first on.
    DELIVERIES[0].get().is_none() || wait_for_devices(deliver_all)
}

pub(super) fn deliver_all() {
    DELIVERIES.iter().filter_map(OnceLock::get).for_each(|deliver| deliver());
}

/// Returns how many regions may be under way (open, or not read yet): in each of CUDA's contexts, and on
/// all devices of burn together.
pub fn max_pending_regions() -> usize {
    MAX_PENDING.load(Ordering::Relaxed)
}

/// Sets how many regions may be under way, 4096 by default. Further ones have no device time, and the
/// report says so. *Memory*: two events or one small buffer of the device, and about 100 bytes, for each
/// that ever was.
pub fn set_max_pending_regions(count: usize) {
    MAX_PENDING.store(count, Ordering::Relaxed);
}
