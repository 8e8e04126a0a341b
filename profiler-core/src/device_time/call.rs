//! Device time of one call, which may be measured on several devices and streams.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Action;
use crate::hook::{DeviceEvent, RegionSink, Timestamp};
use mlprof_events::DeviceActivity;

/// Sum of the device windows of one call. Each window holds a reference to this value. When the
/// last window has its result, the value is dropped and sends the sum to the profiler.
pub(super) struct Call {
    action: Action,
    opened: Timestamp,
    sink: Arc<dyn RegionSink>,
    nanoseconds: AtomicU64,
    /// Reason why at least one window of the call has no time.
    lost: Mutex<Option<String>>,
}

impl Call {
    pub(super) fn new(action: Action, sink: Arc<dyn RegionSink>) -> Self {
        let (nanoseconds, lost) = (AtomicU64::new(0), Mutex::new(None));
        Self { action, opened: Timestamp::now(), sink, nanoseconds, lost }
    }
}

impl RegionSink for Call {
    fn region(&self, _event: &DeviceEvent, nanoseconds: u64) {
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn lost(&self, why: &str) {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.get_or_insert_with(|| why.to_owned());
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let lost = self.lost.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let nanoseconds = *self.nanoseconds.get_mut();
        match lost {
            Some(why) => self.sink.lost(&why),
            None if nanoseconds == 0 => {}
            None => {
                let event = DeviceEvent {
                    activity: DeviceActivity::Region,
                    ..DeviceEvent::new(self.action, self.opened, self.opened)
                };
                self.sink.region(&event, nanoseconds);
            }
        }
    }
}
