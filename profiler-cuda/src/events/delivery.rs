//! How regions come to the profilers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::driver::Failure;
use profiler_core::hook::{DeviceEvent, RegionSink};
use profiler_events::uncounted;

static MAX_PENDING: AtomicUsize = AtomicUsize::new(4096);

/// How many regions may be under way in each context: open, or not read yet.
pub fn max_pending_regions() -> usize {
    MAX_PENDING.load(Ordering::Relaxed)
}

/// Allows so many regions to be under way in each context, 4096 by default. Further ones have no
/// device time, which the report says. *Memory*: two events of CUDA's and about 100 bytes for each
/// that ever was.
pub fn set_max_pending_regions(count: usize) {
    MAX_PENDING.store(count, Ordering::Relaxed);
}

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
