//! Devices whose work can be timed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use burn::backend::{
    Device as BackendDevice, DeviceHandle, DeviceId, DeviceService, DeviceServiceStage,
    ServerUtilitiesHandle,
};
use burn::tensor::Device;

use crate::cube::{is_cube, is_fused};
use crate::framework::device_name;

/// A CubeCL device.
pub(crate) struct TimedDevice {
    pub(super) device: Device,
    /// Index of the device, starting at 0 in registration order.
    pub(super) number: u32,
    /// Message channel to the thread on which burn fuses the device's ops. `None` if burn does not
    /// fuse them.
    marks: Option<DeviceHandle<Marks>>,
    /// Set when cubecl measures this device by waiting for it, because the device has no
    /// timestamps.
    waits: AtomicBool,
}

/// Service that runs both ends of a window in the queue that carries ops to the fusion thread. Each
/// end therefore runs after the ops that the thread called before it, and before those that it
/// calls later.
struct Marks;

impl DeviceService for Marks {
    fn init(_device: DeviceId) -> Self {
        Self
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        Arc::new(())
    }

    fn stage() -> DeviceServiceStage {
        DeviceServiceStage::Upstream
    }
}

static DEVICES: RwLock<Vec<Arc<TimedDevice>>> = RwLock::new(Vec::new());

/// Id of the process that owns the devices. A forked child cannot use them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

pub(super) fn devices() -> Vec<Arc<TimedDevice>> {
    DEVICES.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns the entry of `device`, and registers it if needed. Returns `None` if it is not a CubeCL
/// device.
pub(super) fn watch(device: &Device) -> Option<Arc<TimedDevice>> {
    if !is_cube(device) {
        return None;
    }
    let device = device.clone().inner();
    let is_it = |known: &&Arc<TimedDevice>| known.device == device;
    if let Some(known) = devices().iter().find(is_it) {
        return Some(known.clone());
    }
    let mut devices = DEVICES.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = devices.iter().find(is_it) {
        return Some(known.clone());
    }
    // cubecl creates a new handle under a lock, which the device's thread also takes when it
    // starts. A thread that holds this lock and waits for the device's thread would deadlock. The
    // sync starts all services of the device first.
    let _ = device.sync();
    let marks = is_fused(&device).then(|| DeviceHandle::new(device.as_dispatch().to_id()));
    let number = devices.len() as u32;
    let timed = Arc::new(TimedDevice { device, number, marks, waits: AtomicBool::new(false) });
    devices.push(timed.clone());
    drop(devices);
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    Some(timed)
}

impl TimedDevice {
    /// Runs `work` in order with the device's ops: after the ops that the calling thread has
    /// called, and before later ones. The calling thread does not wait if burn fuses ops. In a
    /// forked child `work` does not run, because the child lacks cubecl's threads.
    pub(super) fn run(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        if !can_time() {
            return;
        }
        // A panic is ignored here, because a failed device reports its error where the program uses
        // it.
        let careful = move |device: &Self| {
            let _ = catch_unwind(AssertUnwindSafe(|| work(device)));
        };
        let device = self.clone();
        let _ = catch_unwind(AssertUnwindSafe(|| match &self.marks {
            Some(marks) => marks.submit(move |_| careful(&device)),
            None => careful(&device),
        }));
    }

    /// Waits until all work passed to [`run`](Self::run) has run.
    pub(super) fn finish(&self) {
        if let Some(marks) = &self.marks {
            let _ = catch_unwind(AssertUnwindSafe(|| marks.submit_blocking(|_| ())));
        }
    }

    /// Records that cubecl measured the device by waiting for it.
    pub(super) fn set_waits(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Returns `true` unless a measurement has shown that the device has no timestamps.
    pub(super) fn is_timed(&self) -> bool {
        !self.waits.load(Ordering::Relaxed)
    }

    /// Returns the reason why the device is not timed, as a sentence, or `None` if it is timed.
    pub(super) fn why_not_timed(&self) -> Option<String> {
        (!self.is_timed()).then(|| {
            format!(
                "{} has no timestamps, so cubecl would wait for it at both ends of every action",
                device_name(&self.device)
            )
        })
    }
}

/// Returns `true` if the calling thread can open windows. cubecl's own threads and forked children
/// cannot.
pub(super) fn can_time() -> bool {
    thread_local!(static IS_CUBECLS: bool = std::thread::current()
        .name()
        .is_some_and(|name| name.starts_with("DSU-") || name.starts_with("DSD-")));
    PROCESS.load(Ordering::Relaxed) == std::process::id()
        && !IS_CUBECLS.try_with(|is| *is).unwrap_or(true)
}
