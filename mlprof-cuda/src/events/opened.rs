//! Data of a region that is known when it is opened.

use std::fmt;
use std::sync::Arc;

use crate::driver::{Failure, NoDriver};
use mlprof_core::Action;
use mlprof_core::hook::RegionSink;
use mlprof_events::uncounted;

/// Reason why a region has no device time.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum NotTimed {
    /// There is no driver.
    #[error(transparent)]
    NoDriver(#[from] &'static NoDriver),
    /// The driver rejected a call.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// The thread has not used CUDA yet, so it has no context.
    #[error("the thread had no CUDA context yet")]
    NoContext,
    /// The stream is captured, and events of a graph have no times.
    #[error("the stream was being captured into a graph")]
    Capturing,
    /// The device is too far behind the host.
    #[error("more than {0} regions were pending; raise the limit with set_max_pending_regions")]
    TooMany(usize),
}

/// Data of a region, except for its events.
pub(super) struct Opened {
    pub(super) action: Action,
    /// Time at which the host opened the region, in clock ticks. The device reached it later.
    pub(super) ticks: u64,
    pub(super) sink: Arc<dyn RegionSink>,
}

impl Opened {
    /// Reports that the region has no device time.
    pub(super) fn lose(&self, why: &dyn fmt::Display) {
        uncounted(|| self.sink.lost(&why.to_string()));
    }
}
