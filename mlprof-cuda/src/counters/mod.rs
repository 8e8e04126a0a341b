//! Counters of NVIDIA devices: utilization, memory, power, temperature and clocks. They are sampled
//! with NVML at a fixed rate while the active profiler needs device data.
//!
//! A dedicated thread samples the devices (`thread`). The program itself never waits for NVML, and
//! the thread sleeps while no profiler needs device data.
//!
//! - `sampled` reads a device and skips counters that the device does not have.
//! - `nvml` loads the library at run time and calls it.
//! - `visible` determines which devices CUDA shows to the process.

mod nvml;
mod sampled;
mod settings;
mod thread;
mod visible;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use settings::InvalidRate;

use mlprof_core::Interest;
use mlprof_core::hook::CounterSample;
use mlprof_events::forking::apart_from_forks;
use mlprof_events::uncounted;
use settings::Settings;

/// Sampling of NVIDIA device counters: utilization, memory, power, temperature and clocks. They
/// become curves in the trace of the [Tensor profiler](mlprof_core::TensorProfiler), and means per
/// action in its report.
///
/// ```no_run
/// use mlprof_cuda::DeviceCounters;
///
/// DeviceCounters::new().rate(20.0).start()?;
/// # Ok::<(), mlprof_cuda::InvalidRate>(())
/// ```
///
/// Sampling is off unless it is [started](Self::start) or the environment sets a rate, such as
/// `MLPROF_DEVICE_COUNTERS=10`. Calls in the program override the environment.
///
/// *When*: while the active profiler needs [`Interest::DEVICE`]. With a schedule, these are the
/// recorded steps and their warm-up, during which NVML is loaded. The first sample is taken
/// immediately.
///
/// A metrics request also receives the current values, even if no sampling takes place. It does not
/// if counters were [stopped](Self::stop) or `MLPROF_DEVICE_COUNTERS=0` is set.
///
/// *Rate*: NVML averages utilization over 1/6 s to 1 s, depending on the device, and updates its
/// values about 6 to 60 times a second. Faster sampling returns the same values again. An action
/// shorter than the sampling interval may have no sample.
///
/// *Devices*: those that `CUDA_VISIBLE_DEVICES` shows to the process, with CUDA's device ids. By
/// default, CUDA numbers the fastest device first, and NVML numbers devices by PCI bus id. The two
/// agree if all devices are of one model, or with `CUDA_DEVICE_ORDER=PCI_BUS_ID`. Otherwise the
/// report notes that they may differ. MIG partitions have no counters.
///
/// *Cost*: none for the threads of the program. The sampling thread spends the time of the NVML
/// calls, which is some tens of microseconds to a few milliseconds per device and sample.
///
/// *Failure*: without NVML or a working driver, the report contains one note and training
/// continues. NVML does not work across a fork, so a process forked after NVML was loaded has no
/// counters.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "nothing is sampled before `start`"]
pub struct DeviceCounters(Settings);

impl Default for DeviceCounters {
    fn default() -> Self {
        Self::new()
    }
}

impl DeviceCounters {
    /// Creates the default settings: all visible devices, ten samples per second.
    pub const fn new() -> Self {
        Self(Settings::DEFAULT)
    }

    /// Sets the number of samples per second, from 0.01 to 1,000.
    pub fn rate(mut self, hertz: f64) -> Self {
        self.0.hertz = hertz;
        self
    }

    /// Restricts sampling to these devices, given by CUDA's device ids from 0.
    pub fn devices(mut self, devices: impl IntoIterator<Item = u32>) -> Self {
        self.0.devices = Some(devices.into_iter().collect());
        self
    }

    /// Starts sampling whenever a profiler needs device data, until [`stop`](Self::stop) or another
    /// start. If there are no devices to sample, the report contains a note.
    ///
    /// # Errors
    ///
    /// Returns an error if the rate is outside this range.
    pub fn start(self) -> Result<(), InvalidRate> {
        self.0.check()?;
        say(Some(Ok(self.0)));
        Ok(())
    }

    /// Stops sampling and overrides the environment. Metrics contain no device values either.
    pub fn stop() {
        say(None);
    }
}

/// Requested settings, or the reason why a request is invalid.
type RequestedSettings = Result<Settings, String>;

struct State {
    /// Set after the first call of the program or the first read of the environment.
    is_known: bool,
    wish: Option<RequestedSettings>,
    /// Set if counters were turned off explicitly.
    is_off: bool,
    /// Senders for pending requests of current values.
    asked: Vec<Sender<Vec<CounterSample>>>,
    /// Process id and handle of the sampling thread, if there is one.
    thread: Option<(u32, std::thread::Thread)>,
}

static STATE: Mutex<State> = Mutex::new(State {
    is_known: false,
    wish: None,
    is_off: false,
    asked: Vec::new(),
    thread: None,
});

/// Maximum number of pending requests. More accumulate only if a device does not respond.
const MOST_ASKED: usize = 8;

/// Maximum time for which a request for current values waits.
const PATIENCE: Duration = Duration::from_secs(1);

impl State {
    /// Runs `work` with the state locked. The lock is held briefly and never across a fork.
    fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        let lock =
            || -> MutexGuard<'_, Self> { STATE.lock().unwrap_or_else(PoisonError::into_inner) };
        uncounted(|| apart_from_forks(|| work(&mut lock())))
    }

    fn wish(&mut self) -> Option<&RequestedSettings> {
        if !std::mem::replace(&mut self.is_known, true) {
            self.wish = Settings::from_environment();
            self.is_off = Settings::are_off_in_environment();
        }
        self.wish.as_ref()
    }

    /// Wakes the sampling thread so that it checks the current request. If it is needed and
    /// missing, it is started, because a forked child does not inherit it.
    fn wake(&mut self, is_needed: bool) {
        let process = std::process::id();
        match &self.thread {
            Some((of, thread)) if *of == process => thread.unpark(),
            _ if is_needed => {
                // If the thread cannot be started, there are no counters, but the program
                // continues.
                self.thread = thread::start().ok().map(|thread| (process, thread));
            }
            _ => {}
        }
    }
}

fn say(wish: Option<RequestedSettings>) {
    State::with(|state| {
        (state.is_known, state.is_off, state.wish) = (true, wish.is_none(), wish);
        thread::begin_turn();
        let is_needed = state.wish.is_some() && thread::is_wanted();
        state.wake(is_needed);
    });
}

/// Reads the environment variable during registration, when reading the environment is safe.
pub(super) fn remember() {
    State::with(|state| {
        state.wish();
    });
}

/// Returns the current values of all sampled devices. Empty if there are no devices, if counters
/// are off, or if the devices do not respond within a second, for example while NVML is loaded.
/// *Cost*: the calling thread waits for the NVML calls.
pub(super) fn now() -> Vec<CounterSample> {
    let (sender, answer) = channel();
    let is_asked = State::with(|state| {
        let is_asked = state.wish().is_some() || !state.is_off;
        let is_asked = is_asked && state.asked.len() < MOST_ASKED;
        if is_asked {
            state.asked.push(sender);
            state.wake(true);
        }
        is_asked
    });
    if !is_asked {
        return Vec::new();
    }
    answer.recv_timeout(PATIENCE).unwrap_or_default()
}

/// Handles a change of the active profiler's interest. *Cost*: a briefly held lock, and starting a
/// thread once per process.
pub(super) fn interest_changed(interest: Interest) {
    State::with(|state| {
        if state.wish().is_some() {
            let is_needed = interest.contains(Interest::DEVICE);
            if is_needed {
                thread::begin_turn();
            }
            state.wake(is_needed);
        }
    });
}
