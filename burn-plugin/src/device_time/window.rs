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

/// An open window, which closes when dropped. Neither opening nor closing waits for the device.
pub(super) struct Window {
    device: Arc<TimedDevice>,
    open: Arc<Open>,
}

/// State shared by both ends of a window, which run on the device's fusion thread.
struct Open {
    region: Region,
    /// burn's profiling token and the window's slot, set by the opening end and taken by the
    /// closing end.
    token: Mutex<Option<(ProfileToken, Place)>>,
}

impl Window {
    /// Opens a window for the work that the calling thread submits to `device` from now on. If too
    /// many windows are pending, reports this to `sink` and returns `None`.
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
        // Earlier ops are flushed first, because they do not belong to this window.
        let started = Dispatch::flush(device).and_then(|()| Dispatch::profile_start(device));
        match started {
            Ok(Some(token)) => *lock(&self.token) = Some((token, place)),
            Ok(None) => self.region.sink.lost("burn cannot measure time on this device"),
            Err(error) => self.lose("open", &error),
        }
    }

    fn end(&self, device: &TimedDevice) {
        let Some((token, place)) = lock(&self.token).take() else { return };
        let options = ProfileOptions::default().flush();
        match Dispatch::profile_end(device.device.as_dispatch(), token, options) {
            // A time taken by the host's clock is not device time. The device is marked, so that
            // later windows are not opened and do not wait for it.
            Ok(time) if time.timing_method() == CubeTimingMethod::System => device.set_waits(),
            Ok(time) => pending::add(self.region.clone(), place, time),
            Err(error) => self.lose("close", &error),
        }
    }

    /// Reports that the window has no time. Only the error's first line is used, because the rest
    /// is a backtrace.
    fn lose(&self, end: &str, error: &dyn Display) {
        let error = error.to_string();
        let first = error.lines().next().unwrap_or_default();
        self.region.sink.lost(&format!("burn cannot {end} a window: {first}"));
    }
}
