//! Delivery of regions to profilers.

use std::sync::Arc;

use crate::driver::Failure;
use mlprof_core::hook::{DeviceEvent, RegionSink};
use mlprof_events::uncounted;

/// Result of a region and the sink that receives it.
pub(super) struct Delivery {
    pub(super) sink: Arc<dyn RegionSink>,
    /// Device event and duration in nanoseconds, or the reason why the region was not timed.
    pub(super) what: Result<(DeviceEvent, u64), Failure>,
}

/// Reports regions to their sinks. The caller must not hold a lock.
pub(super) fn deliver(deliveries: Vec<Delivery>) {
    if deliveries.is_empty() {
        return;
    }
    uncounted(|| {
        for Delivery { sink, what } in deliveries {
            match what {
                Ok((event, nanoseconds)) => sink.region(&event, nanoseconds),
                Err(failure) => sink.lost(&failure.to_string()),
            }
        }
    });
}
