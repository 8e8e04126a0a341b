//! Device time of actions, measured in windows that hooks open on their devices during an action.
//!
//! * A [`DeviceClock`] is registered by a hook and opens a window for the calling thread.
//! * A [`DeviceTime`] belongs to a profiler that measures devices. It opens a window at the start
//!   of each action and closes it at the end. Each thread has its own stack of windows (`open`),
//!   and the windows of a call are summed (`call`).
//!
//! Times reach the profiler through its [`RegionSink`](crate::hook::RegionSink), like those of
//! regions.

mod call;
mod open;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use self::call::Call;
use crate::hook::RegionSink;
use crate::{Action, ActionKind};
use mlprof_events::clock::{self, Rate};
use mlprof_events::uncounted;

/// Measures, with the devices' own clocks, the work that a thread submits to its devices. A hook
/// implements it.
pub trait DeviceClock: Send + Sync {
    /// Opens a window for the work that the calling thread submits to devices. Dropping the
    /// returned value on the same thread closes the window. `sink` receives the window's time, or
    /// the reason why it has none. Returns `None` if the thread uses no device that this clock can
    /// measure.
    ///
    /// An implementation must not wait for a device.
    fn open(&self, action: Action, sink: &Arc<dyn RegionSink>) -> Option<Box<dyn DeviceWindow>>;

    /// Returns the reasons why devices of the program have no device time, one sentence each. They
    /// appear in the report of a profiler that measures devices. The default is empty.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Open window of a [`DeviceClock`], closed when dropped.
pub trait DeviceWindow {}

/// Maximum number of device clocks in one program.
const CLOCKS: usize = 4;

/// Registered clocks in order of registration. They are never removed.
static CLOCK: [OnceLock<&'static dyn DeviceClock>; CLOCKS] = [const { OnceLock::new() }; CLOCKS];

/// Registers `clock` for the actions of every profiler that measures devices, until the process
/// ends. A hook calls this once. Returns `false` if four clocks are already registered.
pub fn register_device_clock(clock: &'static dyn DeviceClock) -> bool {
    CLOCK.iter().any(|place| place.set(clock).is_ok())
}

fn clocks() -> impl Iterator<Item = &'static dyn DeviceClock> {
    CLOCK.iter().map_while(|place| place.get().copied())
}

/// Device time measurement of one profiler.
pub(crate) struct DeviceTime {
    /// Id that distinguishes this profiler's windows from those of other profilers on the same
    /// thread.
    number: u64,
    sink: Arc<dyn RegionSink>,
    /// Number of windows opened since the stage began.
    windows: AtomicU64,
    /// Clock ticks spent on opening and closing windows.
    cost: AtomicU64,
}

impl DeviceTime {
    pub(crate) fn new(sink: Arc<dyn RegionSink>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Self { number, sink, windows: AtomicU64::new(0), cost: AtomicU64::new(0) }
    }

    /// Opens windows for a call of `action` that begins on this thread. Functions, spans and
    /// modules do not get windows. A call nested in a call of the same action does not get windows
    /// either.
    #[cold]
    #[inline(never)]
    pub(crate) fn open(&self, action: Action) {
        if action.kind() != ActionKind::Action {
            return;
        }
        let began = clock::ticks();
        uncounted(|| {
            open::push(self.number, action, || {
                let call: Arc<dyn RegionSink> = Arc::new(Call::new(action, self.sink.clone()));
                let windows: Vec<_> =
                    clocks().filter_map(|clock| clock.open(action, &call)).collect();
                self.windows.fetch_add(u64::from(!windows.is_empty()), Ordering::Relaxed);
                windows
            });
        });
        self.spent(began);
    }

    /// Closes the windows of the innermost call of `action`.
    #[cold]
    #[inline(never)]
    pub(crate) fn close(&self, action: Action) {
        if action.kind() != ActionKind::Action {
            return;
        }
        let began = clock::ticks();
        uncounted(|| drop(open::pop(self.number, action)));
        self.spent(began);
    }

    fn spent(&self, began: u64) {
        let ticks = clock::ticks().saturating_sub(began);
        self.cost.fetch_add(ticks, Ordering::Relaxed);
    }

    /// Resets the counters for a new stage.
    pub(crate) fn reset(&self) {
        self.windows.store(0, Ordering::Relaxed);
        self.cost.store(0, Ordering::Relaxed);
    }

    /// Returns the report notes: the reasons for missing measurements, and the cost of the
    /// measurements taken.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<_> = clocks().flat_map(DeviceClock::notes).collect();
        let windows = self.windows.load(Ordering::Relaxed);
        if windows > 0 {
            let seconds = Rate::now().seconds(self.cost.load(Ordering::Relaxed));
            notes.push(format!(
                "measuring device time took {:.3} ms of host time for {windows} calls of actions, \
                 {:.1} µs each; it is included in the time of the enclosing actions",
                seconds * 1e3,
                seconds * 1e6 / windows as f64
            ));
        } else if notes.is_empty() {
            notes.push(NOTHING_MEASURED.to_owned());
        }
        notes
    }
}

/// Note for a program without devices that can be timed, in the report of a profiler that measures
/// devices.
const NOTHING_MEASURED: &str = "no device time was measured: no action ran on a thread with a \
                                device that can be timed (CubeCL devices: mlprof-burn's feature \
                                `cubecl`, and `mlprof_burn::ops::install` for a handwritten loop; \
                                CUDA with candle or tch: the plugin's feature `cuda`)";

#[cfg(all(test, not(loom)))]
mod tests;
