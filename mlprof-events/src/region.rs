//! Regions of a device: what a program has marked on a stream, timed by the device.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use super::DeviceEvent;

/// Where regions of a device go that were opened while a profiler listened. Their times are known
/// only later, when the profiler may be busy elsewhere, so they have a way of their own.
///
/// Both methods may be called by any thread. They must make no report, and open no region.
pub trait RegionSink: Send + Sync {
    /// A region has run, for `nanoseconds` by the device's clock. The event says the same on the
    /// host's time line, a little less exactly.
    fn region(&self, event: &DeviceEvent, nanoseconds: u64);

    /// A region ran that has no device time, for this reason.
    fn lost(&self, why: &str);
}

/// The sinks of one region, which profilers add while they observe that it is opened.
#[derive(Default)]
pub struct RegionSinks(RefCell<Vec<Arc<dyn RegionSink>>>);

impl RegionSinks {
    /// No sinks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a sink, which receives the region's time in addition to the other sinks.
    pub fn add(&self, sink: Arc<dyn RegionSink>) {
        self.0.borrow_mut().push(sink);
    }

    /// Returns the sinks in the order in which they were added.
    pub fn into_inner(self) -> Vec<Arc<dyn RegionSink>> {
        self.0.into_inner()
    }

    /// Returns one sink for all of them; `None` if no profiler wants the region.
    pub fn into_sink(self) -> Option<Arc<dyn RegionSink>> {
        let mut sinks = self.into_inner();
        match sinks.len() {
            0 | 1 => sinks.pop(),
            _ => Some(Arc::new(AllSinks(sinks))),
        }
    }
}

impl fmt::Debug for RegionSinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("RegionSinks").field(&self.0.borrow().len()).finish()
    }
}

/// The sinks of several profilers.
struct AllSinks(Vec<Arc<dyn RegionSink>>);

impl RegionSink for AllSinks {
    fn region(&self, event: &DeviceEvent, nanoseconds: u64) {
        self.0.iter().for_each(|sink| sink.region(event, nanoseconds));
    }

    fn lost(&self, why: &str) {
        self.0.iter().for_each(|sink| sink.lost(why));
    }
}
