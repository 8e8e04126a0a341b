//! How busy NVIDIA's devices are, their memory, power, temperature and clocks: asked for by NVML, at a
//! set rate, while the active profiler wants to know of devices.
//!
//! A thread of its own asks (`thread`); it waits while nobody wants to know, and trains nothing, so
//! the program never waits for NVML. What a `sampled` device does not have is asked for once. `nvml`
//! is the way to the library, which is loaded at run time; `visible` says which of its devices are
//! CUDA's.

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

/// Samples the counters of NVIDIA's devices from here on: utilization, memory, power, temperature
/// and clocks. They become curves in the trace of the [Tensor
/// profiler](mlprof_core::TensorProfiler), and means per action in its report.
///
/// ```no_run
/// use mlprof_cuda::DeviceCounters;
///
/// DeviceCounters::new().rate(20.0).start()?;
/// # Ok::<(), mlprof_cuda::InvalidRate>(())
/// ```
///
/// Off unless [started](Self::start), or unless the environment has a rate:
/// `MLPROF_DEVICE_COUNTERS=10`. What the program says goes before the environment.
///
/// *When*: while the active profiler wants [`Interest::DEVICE`], so in the recorded steps of a
/// schedule and its warm-up, in which NVML is loaded. The first sample is taken when that begins. Who asks for metrics
/// while the program runs is told what devices show at that moment, also where nothing is sampled, unless
/// counters were [stopped](Self::stop) or `MLPROF_DEVICE_COUNTERS=0`.
///
/// *How fast*: NVML itself counts utilization over spans of 1/6 s to 1 s, depending on the device, and
/// has new values some 6 to 60 times a second; faster samples see the same ones again. An action that
/// is shorter than the time between two samples may have none.
///
/// *Which devices*: those that `CUDA_VISIBLE_DEVICES` lets the process see, with CUDA's numbers. CUDA
/// by default numbers the fastest device first, NVML by place on the bus. They agree where all devices
/// are of one model, and with `CUDA_DEVICE_ORDER=PCI_BUS_ID`; otherwise the report says that they may
/// not. Parts of a device (MIG) have no counters.
///
/// *Cost*: none for the threads of the program; a thread of its own spends what NVML takes, some tens
/// of microseconds to a few milliseconds per device and sample.
///
/// *Failure*: without NVML, or a driver that answers, the report says so once and training goes on.
/// NVML cannot be used on both sides of a fork: a process that is forked after it was loaded has no
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
    /// All visible devices, ten times a second.
    pub const fn new() -> Self {
        Self(Settings::DEFAULT)
    }

    /// How many times a second: from 0.01 to 1,000.
    pub fn rate(mut self, hertz: f64) -> Self {
        self.0.hertz = hertz;
        self
    }

    /// Only these devices, by CUDA's numbers, counted from 0.
    pub fn devices(mut self, devices: impl IntoIterator<Item = u32>) -> Self {
        self.0.devices = Some(devices.into_iter().collect());
        self
    }

    /// Samples from here on, whenever a profiler wants to know, until [`stop`](Self::stop) or another
    /// start. Whether there are devices to sample is said in the report.
    ///
    /// # Errors
    ///
    /// If the rate is none.
    pub fn start(self) -> Result<(), InvalidRate> {
        self.0.check()?;
        say(Some(Ok(self.0)));
        Ok(())
    }

    /// Samples no more, whatever the environment says; metrics are without them, too.
    pub fn stop() {
        say(None);
    }
}

/// What is to be sampled, or why what was asked for cannot be.
type Wish = Result<Settings, String>;

struct State {
    /// Whether the program or the environment was heard.
    is_known: bool,
    wish: Option<Wish>,
    /// Whether it was said that there shall be none.
    is_off: bool,
    /// Those who want to know what devices show now.
    asked: Vec<Sender<Vec<CounterSample>>>,
    /// The process that has a thread that samples, and that thread.
    thread: Option<(u32, std::thread::Thread)>,
}

static STATE: Mutex<State> = Mutex::new(State {
    is_known: false,
    wish: None,
    is_off: false,
    asked: Vec::new(),
    thread: None,
});

/// So many may wait for an answer: more do where a device never answers.
const MOST_ASKED: usize = 8;

/// How long somebody waits who wants to know what devices show now.
const PATIENCE: Duration = Duration::from_secs(1);

impl State {
    /// Held for moments only, and never while a process forks.
    fn with<T>(work: impl FnOnce(&mut Self) -> T) -> T {
        let lock =
            || -> MutexGuard<'_, Self> { STATE.lock().unwrap_or_else(PoisonError::into_inner) };
        uncounted(|| apart_from_forks(|| work(&mut lock())))
    }

    fn wish(&mut self) -> Option<&Wish> {
        if !std::mem::replace(&mut self.is_known, true) {
            self.wish = Settings::from_environment();
            self.is_off = Settings::are_off_in_environment();
        }
        self.wish.as_ref()
    }

    /// Has the thread look at what is wanted now. It is started if it is needed and not there: a
    /// forked child has none.
    fn wake(&mut self, is_needed: bool) {
        let process = std::process::id();
        match &self.thread {
            Some((of, thread)) if *of == process => thread.unpark(),
            _ if is_needed => {
                // If there is no thread to be had, there are no counters, and a program in trouble.
                self.thread = thread::start().ok().map(|thread| (process, thread));
            }
            _ => {}
        }
    }
}

fn say(wish: Option<Wish>) {
    State::with(|state| {
        (state.is_known, state.is_off, state.wish) = (true, wish.is_none(), wish);
        thread::begin_turn();
        let is_needed = state.wish.is_some() && thread::is_wanted();
        state.wake(is_needed);
    });
}

/// Reads the environment, where it may be looked at.
pub(super) fn remember() {
    State::with(|state| {
        state.wish();
    });
}

/// What devices show at this moment, for who asks now and then; nothing where there are none, none are wanted, or they do not
/// answer within a second, as may be when NVML is loaded. *Cost*: for the thread that asks, what NVML takes.
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

/// What the active profiler wants has changed. *Cost*: a lock that nobody holds for long; a thread
/// once per process.
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
