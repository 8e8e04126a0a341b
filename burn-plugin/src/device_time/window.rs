//! One measurement on one device.

use std::fmt::Display;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use burn::backend::{Backend, Dispatch, ProfileToken, StreamId};
use burn::cubecl::logging::TimingMethod as CubeTimingMethod;
use burn::tensor::ProfileOptions;
use mlprof_core::Action;
use mlprof_core::hook::{RegionSink, Timestamp};

use super::device::TimedDevice;
use super::pending::{self, Place};
use super::region::Region;
use crate::lock::lock;

/// A window that is open; closes when dropped. Neither end waits for the device.
pub(super) struct Window {
    device: Arc<TimedDevice>,
    open: Arc<Open>,
}

/// A window, for both of its ends, which run on the device's fusion thread.
struct Open {
    region: Region,
    /// burn's window and its place among those under way, from the first end to the second.
    token: Mutex<Option<(ProfileToken, Place)>>,
}

impl Window {
    /// Opens a window for what the calling thread hands to `device` from here on; `None` if there are too
    /// many, which `sink` is told.
    pub(super) fn open(
        device: &Arc<TimedDevice>,
        action: Action,
        sink: &Arc<dyn RegionSink>,
    ) -> Option<Self> {
        pending::read_some();
        let place = match Place::take() {
            Ok(place) => place,
            Err(too_many) => {
                sink.lost(&too_many.to_string());
                return None;
            }
        };
        let region = Region {
            action,
            device: device.number,
            stream: StreamId::current().value as u32,
            opened: (Timestamp::now(), Instant::now()),
            sink: sink.clone(),
        };
        let open = Arc::new(Open { region, token: Mutex::new(None) });
        let begun = open.clone();
        device.run(move |device| begun.begin(device, place));
        Some(Self { device: device.clone(), open })
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let open = self.open.clone();
        self.device.run(move |device| open.end(device));
    }
}

impl Open {
    fn begin(&self, device: &TimedDevice, place: Place) {
        let device = device.device.as_dispatch();
        // What was called before is not this window's.
        let started = Dispatch::flush(device).and_then(|()| Dispatch::profile_start(device));
        match started {
            Ok(Some(token)) => *lock(&self.token) = Some((token, place)),
            Ok(None) => self.region.sink.lost("burn has no windows for this device"),
            Err(error) => self.lose("open", &error),
        }
    }

    fn end(&self, device: &TimedDevice) {
        let Some((token, place)) = lock(&self.token).take() else { return };
        let options = ProfileOptions::default().flush();
        match Dispatch::profile_end(device.device.as_dispatch(), token, options) {
            // The host's time is no device time; from here on nobody waits for the device any more.
            Ok(time) if time.timing_method() == CubeTimingMethod::System => device.set_waits(),
            Ok(time) => pending::add(self.region.clone(), place, time),
            Err(error) => self.lose("close", &error),
        }
    }

    /// Says that the window has no time; the first line of the error, since others are a backtrace.
    fn lose(&self, end: &str, error: &dyn Display) {
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        self.region.sink.lost(&format!("burn cannot {end} a window: {first}"));
    }
}
