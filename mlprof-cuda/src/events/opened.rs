//! What is known of a region when it is opened.

use std::fmt;
use std::sync::Arc;

use crate::driver::{Failure, NoDriver};
use mlprof_core::Action;
use mlprof_core::hook::RegionSink;
use mlprof_events::uncounted;

/// Why a region has no device time.
#[derive(Debug, Clone, thiserror::Error)]
pub(super) enum NotTimed {
    /// There is no driver.
    #[error(transparent)]
    NoDriver(#[from] &'static NoDriver),
    /// The driver refused something.
    #[error(transparent)]
    Failure(#[from] Failure),
    /// Nothing has used CUDA yet on this thread.
    #[error("the thread had no context of CUDA yet")]
    NoContext,
    /// Events of a graph have no time of their own.
    #[error("the stream was being captured into a graph")]
    Capturing,
    /// The device is too far behind.
    #[error("more than {0} regions were under way (set_max_pending_regions)")]
    TooMany(usize),
}

/// What is known of a region, but for its events.
pub(super) struct Opened {
    pub(super) action: Action,
    /// When it was opened, on the host's time line: the device came to it later.
    pub(super) ticks: u64,
    pub(super) sink: Arc<dyn RegionSink>,
}

impl Opened {
    /// Says that it has no device time.
    pub(super) fn lose(&self, why: &dyn fmt::Display) {
        uncounted(|| self.sink.lost(&why.to_string()));
    }
}
