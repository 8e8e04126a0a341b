//! How regions come to the profilers.

use std::sync::Arc;

use crate::driver::Failure;
use mlprof_core::hook::{DeviceEvent, RegionSink};
use mlprof_events::uncounted;

/// A region that was timed, or was not, and whom to tell.
pub(super) struct Delivery {
    pub(super) sink: Arc<dyn RegionSink>,
    /// What ran and for how many nanoseconds; or why that is not known.
    pub(super) what: Result<(DeviceEvent, u64), Failure>,
}

/// Tells the profilers. To be called with no lock held.
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
