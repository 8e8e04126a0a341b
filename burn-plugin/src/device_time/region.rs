//! A closed region that is delivered to the profiler.

use std::sync::Arc;
use std::time::{Duration, Instant};

use burn::cubecl::logging::ProfileTicks;
use mlprof_core::Action;
use mlprof_core::hook::{DeviceActivity, DeviceEvent, RegionSink, Timestamp};

/// The duration that cubecl reports for a window that it could not read.
const UNREADABLE: Duration = Duration::from_secs(3600);

/// Data of a region, except its time.
#[derive(Clone)]
pub(super) struct Region {
    pub(super) action: Action,
    /// Index of the device.
    pub(super) device: u32,
    /// Stream of the calling thread.
    pub(super) stream: u32,
    /// Opening time by both host clocks.
    pub(super) opened: (Timestamp, Instant),
    pub(super) sink: Arc<dyn RegionSink>,
}

impl Region {
    /// Delivers the device time to the profiler. A window in which nothing ran has no time.
    pub(super) fn deliver(self, ticks: Result<Option<ProfileTicks>, ()>) {
        let time = match ticks {
            Ok(Some(ticks)) => ticks.duration(),
            Ok(None) => return,
            Err(()) => UNREADABLE,
        };
        if time == UNREADABLE {
            return self.sink.lost("the device did not answer");
        }
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        if nanoseconds == 0 {
            return;
        }
        // The device clock differs from the host clock, so the region is placed at its opening
        // time.
        let (start, end) = (self.opened.0, Timestamp::at(self.opened.1 + time));
        let event = DeviceEvent {
            activity: DeviceActivity::Region,
            device: self.device,
            stream: self.stream,
            ..DeviceEvent::new(self.action, start, end.max(start))
        };
        self.sink.region(&event, nanoseconds);
    }
}
