//! The device clock of actions, for all devices.

use std::sync::{Arc, Mutex, OnceLock};

use burn::tensor::Device;
use mlprof_core::Action;
use mlprof_core::hook::{self, DeviceClock, DeviceWindow, RegionSink};

use super::device::{self, TimedDevice, can_time, devices};
use super::pending;
use super::window::Window;
use crate::lock::lock;

/// Registers `device`, whose work is then timed whenever a profiler measures devices. Returns
/// `None` if it is not a CubeCL device.
pub(crate) fn watch(device: &Device) -> Option<Arc<TimedDevice>> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let timed = device::watch(device)?;
    REGISTERED.get_or_init(|| {
        hook::add_region_delivery(deliver_all);
        hook::register_device_clock(&Clock)
    });
    Some(timed)
}

/// Times actions on all registered devices. Trainings, [`install`](crate::ops::install) and
/// [`profile_device`](super::profile_device) register devices.
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

/// Delivers the times of all closed windows to the profilers. Waits for the devices if any windows
/// are pending.
fn deliver_all() {
    /// Serialises deliveries. A thread that waited for the lock finds everything delivered.
    static DELIVERING: Mutex<()> = Mutex::new(());

    if can_time() && pending::is_any() {
        let _alone = lock(&DELIVERING);
        devices().iter().for_each(|device| device.finish());
        pending::deliver_all();
    }
}
