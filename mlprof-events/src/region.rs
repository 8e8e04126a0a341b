//! Device regions: parts of a stream that a program marked, timed by the device.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use super::DeviceEvent;

/// Receiver of device regions that were opened while a profiler was active. The time of a region is
/// known only later, when the profiler may be working on something else. So regions are delivered
/// separately from other events.
///
/// Both methods may be called by any thread. They must not make a report or open a region.
pub trait RegionSink: Send + Sync {
    /// Receives a region that has run for `nanoseconds` by the device's clock. The event contains
    /// the same time on the host's time line, with slightly lower precision.
    fn region(&self, event: &DeviceEvent, nanoseconds: u64);

    /// Receives a region without a device time, and the reason for that.
    fn lost(&self, why: &str);
}

/// Sinks of one region. Profilers add them when they observe that the region is opened.
#[derive(Default)]
pub struct RegionSinks(RefCell<Vec<Arc<dyn RegionSink>>>);

impl RegionSinks {
    /// Creates an empty list of sinks.
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

    /// Returns one sink that forwards to all of them, or `None` if no profiler added a sink.
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

/// Sink that forwards to the sinks of several profilers.
struct AllSinks(Vec<Arc<dyn RegionSink>>);

impl RegionSink for AllSinks {
    fn region(&self, event: &DeviceEvent, nanoseconds: u64) {
        self.0.iter().for_each(|sink| sink.region(event, nanoseconds));
    }

    fn lost(&self, why: &str) {
        self.0.iter().for_each(|sink| sink.lost(why));
    }
}
