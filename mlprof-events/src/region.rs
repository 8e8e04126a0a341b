//! Regions of a device: what a program has marked on a stream, timed by the device.

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
