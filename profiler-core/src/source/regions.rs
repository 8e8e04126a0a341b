//! Regions of a device, on their way to those who listened when they were opened.

use std::sync::OnceLock;

/// What brings regions to their sinks.
static DELIVERY: OnceLock<fn()> = OnceLock::new();

/// From here on `deliver` is called when [all regions](deliver_regions) are to arrive. For the one hook
/// that has regions.
#[doc(hidden)]
pub fn set_region_delivery(deliver: fn()) {
    let _ = DELIVERY.set(deliver); // it is always the same
}

/// Brings all regions to their sinks whose guards have been dropped. Waits for the device, if any is
/// under way.
pub(crate) fn deliver_regions() {
    if let Some(deliver) = DELIVERY.get() {
        deliver();
    }
}
