//! The clock of actions: all devices together.

use std::sync::{Arc, Mutex, OnceLock};

use burn::tensor::Device;
use mlprof_core::Action;
use mlprof_core::hook::{self, DeviceClock, DeviceWindow, RegionSink};

use super::device::{self, TimedDevice, can_time, devices};
use super::pending;
use super::window::Window;
use crate::lock::lock;

/// Has `device` timed from here on, whenever a profiler measures devices. Returns `None` if it is none of
/// CubeCL's.
pub(crate) fn watch(device: &Device) -> Option<Arc<TimedDevice>> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let timed = device::watch(device)?;
    REGISTERED.get_or_init(|| {
        hook::add_region_delivery(deliver_all);
        hook::register_device_clock(&Clock)
    });
    Some(timed)
}

/// Times actions on all devices together that are known: those of trainings, and those that were given to
/// [`install`](crate::ops::install) or to [`profile_device`](super::profile_device).
struct Clock;

impl DeviceClock for Clock {
    fn open(&self, action: Action, sink: &Arc<dyn RegionSink>) -> Option<Box<dyn DeviceWindow>> {
        if !can_time() {
            return None;
        }
        let devices = devices();
        let timed = devices.iter().filter(|device| device.is_timed());
        let windows: Vec<_> =
            timed.filter_map(|device| Window::open(device, action, sink)).collect();
        (!windows.is_empty()).then(|| Box::new(Windows { _each: windows }) as Box<dyn DeviceWindow>)
    }

    fn notes(&self) -> Vec<String> {
        let devices = devices();
        let reasons = devices.iter().filter_map(|device| device.why_not_timed());
        reasons.map(|why| format!("no device time: {why}")).collect()
    }
}

/// The windows of an action, one per device.
struct Windows {
    _each: Vec<Window>,
}

impl DeviceWindow for Windows {}

/// Brings the times of all windows that are closed to the profilers. Waits for the devices, if there are any.
fn deliver_all() {
    /// One at a time: who comes second finds everything delivered.
    static DELIVERING: Mutex<()> = Mutex::new(());

    if can_time() && pending::is_any() {
        let _alone = lock(&DELIVERING);
        devices().iter().for_each(|device| device.finish());
        pending::deliver_all();
    }
}
