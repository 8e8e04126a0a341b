//! The devices whose work can be timed.

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

/// A device of CubeCL's.
pub(crate) struct TimedDevice {
    pub(super) device: Device,
    /// Counted from 0, in the order in which the devices became known.
    pub(super) number: u32,
    /// The way to the thread on which burn fuses the device's ops; `None` where it fuses none.
    marks: Option<DeviceHandle<Marks>>,
    /// Whether cubecl measures this device by waiting for it, since it has no timestamps.
    waits: AtomicBool,
}

/// Receives the ends of windows, in the queue that brings ops to the fusion thread: behind the ops that the
/// thread called before, and before those that it calls later.
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

/// The process that the devices are of: a forked child can use none of them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

pub(super) fn devices() -> Vec<Arc<TimedDevice>> {
    DEVICES.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Returns what is kept of `device`; `None` if it is none of CubeCL's.
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
    // cubecl makes a new handle under a lock that the device's thread takes, too, while it begins to work:
    // a thread that waited for it with the lock would wait for ever. So all of its services begin here.
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
    /// Calls `work` where the device's ops are run: after the ops that the calling thread has called, and
    /// before those that it calls from here on. The calling thread does not wait where burn fuses ops.
    /// A forked child, which has none of cubecl's threads, calls nothing.
    pub(super) fn run(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        if !can_time() {
            return;
        }
        // A device that has failed says so where the program uses it.
        let careful = move |device: &Self| {
            let _ = catch_unwind(AssertUnwindSafe(|| work(device)));
        };
        let device = self.clone();
        let _ = catch_unwind(AssertUnwindSafe(|| match &self.marks {
            Some(marks) => marks.submit(move |_| careful(&device)),
            None => careful(&device),
        }));
    }

    /// Waits until everything that was given to [`run`](Self::run) has run.
    pub(super) fn finish(&self) {
        if let Some(marks) = &self.marks {
            let _ = catch_unwind(AssertUnwindSafe(|| marks.submit_blocking(|_| ())));
        }
    }

    /// The device was measured by a wait for it.
    pub(super) fn set_waits(&self) {
        self.waits.store(true, Ordering::Relaxed);
    }

    /// Whether the device has timestamps, as far as that is known.
    pub(super) fn is_timed(&self) -> bool {
        !self.waits.load(Ordering::Relaxed)
    }

    /// Returns why the device is not timed, in a sentence; `None` if it is.
    pub(super) fn why_not_timed(&self) -> Option<String> {
        (!self.is_timed()).then(|| {
            format!(
                "{} has no timestamps: cubecl would wait for it at both ends of every action",
                device_name(&self.device)
            )
        })
    }
}

/// Whether windows can be opened on the calling thread: not on cubecl's own, nor in a forked child.
pub(super) fn can_time() -> bool {
    thread_local!(static IS_CUBECLS: bool = std::thread::current()
        .name()
        .is_some_and(|name| name.starts_with("DSU-") || name.starts_with("DSD-")));
    PROCESS.load(Ordering::Relaxed) == std::process::id()
        && !IS_CUBECLS.try_with(|is| *is).unwrap_or(true)
}
