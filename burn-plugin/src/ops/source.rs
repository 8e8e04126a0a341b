//! Installs and removes the observers, and tracks the places of the calling threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use burn::backend::{Device as BackendDevice, DeviceHandle, StreamId};
use burn::cubecl::logging::LaunchObservation;
use burn::tensor::Device;
use burn_fusion::observer::FusionObservation;
use mlprof_core::Interest;
use mlprof_core::hook::{self, Context, Instrumentation, MemoryChange, MemoryDevice, register};
use mlprof_core::output::say;

use super::session::Session;
use super::thread::{Messages, Place, is_fusion_thread, with_thread};
use crate::direction::direction;
use crate::lock::lock;

/// Maximum number of unread measurements. When it is exceeded, they are read before the end of the
/// recording.
const MOST_UNREAD: usize = 1 << 14;

/// A device whose ops are recorded.
struct Watched {
    device: Device,
    messages: DeviceHandle<Messages>,
    /// Memory in use at the last reading, in bytes.
    memory: Arc<AtomicU64>,
}

/// The process-wide state.
#[derive(Default)]
struct CubeOps {
    devices: RwLock<Vec<Watched>>,
    /// Number of the running session, or 0 without one.
    session: AtomicU64,
    installed: Mutex<Option<Installed>>,
}

struct Installed {
    launches: LaunchObservation,
    ops: FusionObservation,
    session: Arc<Session>,
}

fn cube_ops() -> &'static Arc<CubeOps> {
    static OPS: OnceLock<Arc<CubeOps>> = OnceLock::new();
    OPS.get_or_init(Arc::default)
}

/// Registers `device`, whose ops are then recorded whenever a profiler requests ops.
pub(super) fn watch(device: &Device) {
    let device = device.clone().inner();
    let ops = cube_ops();
    {
        let mut devices = ops.devices.write().unwrap_or_else(PoisonError::into_inner);
        if devices.iter().any(|watched| watched.device == device) {
            return;
        }
        // cubecl creates a new handle under a lock, which the device's thread also takes when it
        // starts. A thread that holds this lock and waits for the device's thread would deadlock.
        // The sync starts the device's thread first. Its error is ignored, because a failed device
        // reports it where the program uses the device.
        let _ = device.sync();
        let messages = DeviceHandle::new(device.as_dispatch().to_id());
        devices.push(Watched { device, messages, memory: Arc::default() });
    }
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| register(ops.clone()).forever());
}

impl Instrumentation for CubeOps {
    fn ops_of(&self) -> Option<&'static str> {
        Some("burn's CubeCL devices")
    }

    fn interest_changed(&self, interest: Interest) {
        let mut installed = lock(&self.installed);
        self.session.store(0, Ordering::Relaxed);
        // The old observer is removed first. Otherwise, cubecl would reinstall it when the new one
        // is removed.
        if let Some(old) = installed.take() {
            drop(old.launches);
            drop(old.ops);
            old.session.end();
        }
        if interest.contains(Interest::OPS) {
            let session = Arc::new(Session::new(interest));
            self.session.store(session.number, Ordering::Relaxed);
            *installed = Some(Installed::new(session));
        }
    }

    fn flush(&self) {
        if is_fusion_thread() {
            return;
        }
        // The error is ignored, because a failed device reports it where the program reads its
        // tensors.
        let _ = catch_unwind(AssertUnwindSafe(|| self.finish_work()));
    }

    fn wants_context(&self) -> bool {
        true
    }

    fn context_changed(&self, context: Context) {
        let session = self.session.load(Ordering::Relaxed);
        if session == 0 || is_fusion_thread() {
            return;
        }
        let place = Place { context: Some(context), direction: direction(), is_unseen: false };
        let _ = catch_unwind(AssertUnwindSafe(|| self.tell_place(session, place)));
    }
}

impl CubeOps {
    fn current(&self) -> Option<Arc<Session>> {
        lock(&self.installed).as_ref().map(|installed| installed.session.clone())
    }

    /// Waits until all called ops have run, and delivers their kernels.
    fn finish_work(&self) {
        let session = self.current();
        let streams = session.as_ref().map(|session| session.streams()).unwrap_or_default();
        let devices: Vec<_> = self.read_devices(|watched| watched.device.clone());
        for device in devices {
            // Each calling thread has its own queue.
            for stream in &streams {
                let _ = stream.executes(|| device.sync());
            }
            let _ = device.sync();
        }
        if let Some(session) = session {
            session.deliver();
        }
    }

    /// Sends the calling thread's place to all devices.
    fn tell_place(&self, number: u64, place: Place) {
        let Some(session) = self.current() else { return };
        if session.unread() > MOST_UNREAD {
            session.deliver();
        }
        let asks_memory = session.memory && session.has_stream(StreamId::current());
        let devices = self.devices.read().unwrap_or_else(PoisonError::into_inner);
        for (index, watched) in (0_u32..).zip(devices.iter()) {
            let change = if asks_memory { watched.memory_change(index) } else { None };
            watched.messages.submit(move |_| {
                if let Some(change) = change {
                    hook::memory(&change);
                }
                with_thread(number, |thread| thread.enter(index, place));
            });
        }
    }

    /// Notifies all devices whether the calling thread's next ops belong to the profiler.
    fn tell_unseen(&self, session: u64, is_unseen: bool) {
        let devices = self.devices.read().unwrap_or_else(PoisonError::into_inner);
        for (index, watched) in (0_u32..).zip(devices.iter()) {
            watched.messages.submit(move |_| {
                with_thread(session, |thread| thread.set_unseen(index, is_unseen));
            });
        }
    }

    fn read_devices<T>(&self, read: impl FnMut(&Watched) -> T) -> Vec<T> {
        let devices = self.devices.read().unwrap_or_else(PoisonError::into_inner);
        devices.iter().map(read).collect()
    }
}

/// RAII guard that marks the ops of its thread as the profiler's own.
pub(super) struct Unseen {
    /// Number of the notified session, or 0 without one.
    session: u64,
}

impl Unseen {
    /// Creates the guard. *Cost*: one relaxed load while no profiler requests ops.
    pub(super) fn begin() -> Self {
        let unseen = Self { session: cube_ops().session.load(Ordering::Relaxed) };
        unseen.tell(true);
        unseen
    }

    fn tell(&self, is_unseen: bool) {
        if self.session != 0 && !is_fusion_thread() {
            let tell = || cube_ops().tell_unseen(self.session, is_unseen);
            let _ = catch_unwind(AssertUnwindSafe(tell));
        }
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        self.tell(false);
    }
}

impl Watched {
    /// Returns the change of the device's memory use since the last reading, or `None` if there is
    /// none. It runs the calling thread's queued ops and waits for the device's thread.
    fn memory_change(&self, index: u32) -> Option<MemoryChange> {
        let usage = self.device.memory_pool_usage()?;
        let before = self.memory.swap(usage.bytes_in_use, Ordering::Relaxed);
        let bytes = usage.bytes_in_use.cast_signed().wrapping_sub(before.cast_signed());
        (bytes != 0).then_some(MemoryChange {
            address: 0,
            bytes,
            total_allocated: usage.bytes_in_use,
            total_reserved: usage.bytes_reserved,
            device: MemoryDevice::Accelerator(index as u16),
        })
    }
}

impl Installed {
    fn new(session: Arc<Session>) -> Self {
        let ops = FusionObservation::new(session.clone());
        let launches = LaunchObservation::new(session.clone());
        say_if_replaced(&launches);
        Self { launches, ops, session }
    }
}

/// Prints a message if the program's own launch observer was replaced. cubecl supports only one
/// launch observer.
fn say_if_replaced(launches: &LaunchObservation) {
    static SAID: AtomicBool = AtomicBool::new(false);
    let has_replaced = format!("{launches:?}").contains("replaced_an_observer: true");
    if has_replaced && !SAID.swap(true, Ordering::Relaxed) {
        say(
            "mlprof: the program's own observer of cubecl launches receives nothing while ops are \
             recorded, because cubecl supports only one observer",
        );
    }
}
