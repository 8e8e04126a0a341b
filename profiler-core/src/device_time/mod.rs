//! Device time of actions: windows that hooks open on their devices while an action is open.
//!
//! * A [`DeviceClock`] is what a hook registers: it opens a window for the calling thread.
//! * [`DeviceTime`] is what a profiler has that measures devices: it opens a window at the start of each
//!   action and closes it at the end. The windows of a thread are on a stack of its own (`open`), and those of a
//!   call are added up (`call`).
//!
//! Times reach the profiler through its [`RegionSink`](crate::hook::RegionSink), as those of regions do.

mod call;
mod open;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use self::call::Call;
use crate::hook::RegionSink;
use crate::{Action, ActionKind};
use mlprof_events::clock::{self, Rate};
use mlprof_events::uncounted;

/// A hook that can time what a thread hands to its devices between two moments, by the devices' clocks.
pub trait DeviceClock: Send + Sync {
    /// Opens a window for what the calling thread hands to devices from here on; it closes when the
    /// returned value is dropped, on the same thread. Its time goes to `sink`, or the reason why it has
    /// none. Returns `None` where the thread uses no device that this clock times.
    ///
    /// Must not wait for a device.
    fn open(&self, action: Action, sink: &Arc<dyn RegionSink>) -> Option<Box<dyn DeviceWindow>>;

    /// Returns why devices of the program have no device time, one sentence each, for the report of a
    /// profiler that measures devices. By default none.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An open window of a [`DeviceClock`]; closes when dropped.
pub trait DeviceWindow {}

/// Clocks of devices that one program may have.
const CLOCKS: usize = 4;

/// In the order of registration. A clock stays for the life of the process.
static CLOCK: [OnceLock<&'static dyn DeviceClock>; CLOCKS] = [const { OnceLock::new() }; CLOCKS];

/// Has `clock` time the actions of every profiler that measures devices, from here to the end of the
/// process. A hook calls this once. False if there are more clocks than there is room for (four).
pub fn register_device_clock(clock: &'static dyn DeviceClock) -> bool {
    CLOCK.iter().any(|place| place.set(clock).is_ok())
}

fn clocks() -> impl Iterator<Item = &'static dyn DeviceClock> {
    CLOCK.iter().map_while(|place| place.get().copied())
}

/// Measures device time for one profiler.
pub(crate) struct DeviceTime {
    /// Tells the profiler's windows from those of others on the same thread.
    number: u64,
    sink: Arc<dyn RegionSink>,
    /// Windows opened since the stage began.
    windows: AtomicU64,
    /// Ticks that opening and closing them took.
    cost: AtomicU64,
}

impl DeviceTime {
    pub(crate) fn new(sink: Arc<dyn RegionSink>) -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Self { number, sink, windows: AtomicU64::new(0), cost: AtomicU64::new(0) }
    }

    /// Opens windows for a call of `action` that begins on this thread. Functions, spans and modules have none,
    /// nor has a call inside a call of the same action.
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

    /// A stage begins.
    pub(crate) fn reset(&self) {
        self.windows.store(0, Ordering::Relaxed);
        self.cost.store(0, Ordering::Relaxed);
    }

    /// Returns the notes of a report: what was not measured and why, and the cost of what was.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes: Vec<_> = clocks().flat_map(DeviceClock::notes).collect();
        let windows = self.windows.load(Ordering::Relaxed);
        if windows > 0 {
            let seconds = Rate::now().seconds(self.cost.load(Ordering::Relaxed));
            notes.push(format!(
                "measuring device time took {:.3} ms of the host's time for {windows} calls of actions, \
                 {:.1} µs each; it is in the time of the actions around them",
                seconds * 1e3,
                seconds * 1e6 / windows as f64
            ));
        } else if notes.is_empty() {
            notes.push(NOTHING_MEASURED.to_owned());
        }
        notes
    }
}

/// The note of a report whose profiler measures devices, in a program that uses none that can be timed.
const NOTHING_MEASURED: &str = "no device time was measured: no action ran on a thread that used a device \
     which can be timed (CubeCL devices: mlprof-burn's feature `cubecl`, and `mlprof_burn::ops::install` \
     for a loop of your own; CUDA with candle or tch: the plugin's feature `cuda`)";

#[cfg(all(test, not(loom)))]
mod tests;
