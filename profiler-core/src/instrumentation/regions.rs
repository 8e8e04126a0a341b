//! Delivery of device regions to the sinks that were present when they were opened.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::patience::wait_for_devices;

/// Maximum number of hooks that measure regions, for example with CUDA events or burn devices.
const HOOKS: usize = 4;

/// Delivery functions, one per hook.
static DELIVERIES: [OnceLock<fn()>; HOOKS] = [const { OnceLock::new() }; HOOKS];

static MAX_PENDING: AtomicUsize = AtomicUsize::new(4096);

/// Registers `deliver`, which is called when [all regions](deliver_regions) must arrive. A hook may
/// register its function repeatedly.
#[doc(hidden)]
pub fn add_region_delivery(deliver: fn()) {
    for place in &DELIVERIES {
        if *place.get_or_init(|| deliver) as usize == deliver as usize {
            return;
        }
    }
}

/// Delivers all closed regions to their sinks. If any are pending, it [waits for the
/// device](wait_for_devices). Returns `true` if all regions arrived in time.
pub(crate) fn deliver_regions() -> bool {
    // Hooks fill the slots from the first one on.
    DELIVERIES[0].get().is_none() || wait_for_devices(deliver_all)
}

pub(super) fn deliver_all() {
    DELIVERIES.iter().filter_map(OnceLock::get).for_each(|deliver| deliver());
}

/// Returns the maximum number of pending regions, which are open or not yet read. The limit applies
/// per CUDA context, and to all burn devices together.
pub fn max_pending_regions() -> usize {
    MAX_PENDING.load(Ordering::Relaxed)
}

/// Sets the maximum number of pending regions, 4096 by default. Further regions have no device
/// time, and the report mentions them. *Memory*: two events or one small device buffer, and about
/// 100 bytes, for each region at the peak.
pub fn set_max_pending_regions(count: usize) {
    MAX_PENDING.store(count, Ordering::Relaxed);
}
