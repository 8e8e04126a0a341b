//! Who watches all trainings of the process from outside, beside what measures them: `mlprof-live`.
//!
//! A watcher is a profiler that wants nothing until somebody asks: it counts steps, and may want something
//! later. It is part of whatever a training was given, so it hears of stages and steps, and is told of
//! everything that is active, so it hears of the rest as soon as it wants to.

use std::sync::{Arc, OnceLock, PoisonError};

use mlprof_events::environment::{Environment, Switch};
use mlprof_events::forking::Mutex;
use mlprof_events::{CounterSample, Observation};
use mlprof_report::output::say;

use crate::active::{activate_beside, hands_on};
use crate::multi::MultiProfiler;
use crate::{Activated, Profiler, ProfilerExt, RunContext, Stage};

static WATCHER: OnceLock<Arc<dyn Profiler>> = OnceLock::new();
/// Kept for the rest of the process.
static ACTIVATED: Mutex<Option<Activated>> = Mutex::new(None);

/// Has `watcher` hear of all trainings that begin from here on, for the rest of the process. There is one: whether
/// it is this one.
pub fn watch_all(watcher: Arc<dyn Profiler>) -> bool {
    if WATCHER.set(watcher.clone()).is_err() {
        return false;
    }
    let activated = activate_beside(watcher);
    *ACTIVATED.lock().unwrap_or_else(PoisonError::into_inner) = Some(activated);
    true
}

/// What makes the process listen, or says why it cannot, and what has it listen no more.
#[derive(Debug, Clone, Copy)]
pub struct Listening {
    /// Begins, unless it has begun.
    pub begin: fn() -> Result<(), String>,
    /// Ends.
    pub end: fn(),
}

static LISTENING: OnceLock<Listening> = OnceLock::new();

/// Has `.live(true)` of trainers and sessions, and `mlprof run --live`, begin this. To be called once, by the crate that
/// can, before any other function that runs before `main`.
pub fn can_listen(listening: Listening) {
    // Whoever came first can do it as well.
    let _ = LISTENING.set(listening);
}

/// Has the process listen, as `.live(true)` of a trainer or a session asks, unless `MLPROF_LIVE=0` says that it shall not.
/// What is in the way is said on standard error, and is no reason not to train.
pub fn listen() {
    if Environment::get().live == Some(Switch::Off) {
        return;
    }
    let begun = match LISTENING.get() {
        Some(listening) => (listening.begin)(),
        None => Err(NOT_BUILT.to_owned()),
    };
    if let Err(error) = begun {
        say(format_args!("mlprof: nobody can look in while it runs: {error}"));
    }
}

/// Reason why a process without `mlprof-live` cannot listen.
const NOT_BUILT: &str = "the program is built without that: turn on the feature `live` of its mlprof plugin, or add the \
                         crate mlprof-live";

/// Prints which variables of the environment ask for something that only `mlprof-live` can do,
/// where the program is built without it.
fn explain_unheeded_variables() {
    if LISTENING.get().is_some() || crate::build_settings::is_apart() {
        return;
    }
    let environment = Environment::get();
    let asked = [
        ("MLPROF_LIVE=1", environment.live == Some(Switch::On)),
        ("MLPROF_CAPTURE_PORT", environment.capture_port.is_some()),
        ("MLPROF_METRICS_PORT", environment.metrics_port.is_some()),
    ];
    for (variable, _) in asked.iter().filter(|(_, is_asked)| *is_asked) {
        say(format_args!("mlprof: {variable} has no effect: {NOT_BUILT}"));
    }
}

// SAFETY: it reads the environment and may write a line, which the standard library needs no `main`
// for.
mlprof_events::before_main!(unsafe explain_unheeded_variables);

/// What says what devices show at this moment.
type Devices = fn() -> Vec<CounterSample>;

static DEVICES: OnceLock<Devices> = OnceLock::new();

/// Has [`devices_now`] call `devices`. To be called once, by the crate that can.
pub fn can_tell_of_devices(devices: Devices) {
    // Whoever came first can do it as well.
    let _ = DEVICES.set(devices);
}

/// What devices show at this moment, each of their counters once; nothing where nobody knows. *Cost*: some milliseconds for
/// each device, and none for other threads.
pub fn devices_now() -> Vec<CounterSample> {
    DEVICES.get().map(|devices| devices()).unwrap_or_default()
}

/// Another copy of this crate listens instead, before anything has run.
pub(crate) fn stop_listening() {
    let Some(listening) = LISTENING.get() else { return };
    (listening.end)();
    let activated = ACTIVATED.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(activated);
}

/// A training step is over that no loop tells of: spliced code does.
pub(crate) fn step() {
    if let Some(watcher) = WATCHER.get() {
        watcher.observe(&Observation::StepEnd);
    }
}

/// A profiler that was chosen, and the watcher besides; `None` where nobody watches, or the profiler hands on to the watcher
/// already.
pub(crate) fn with_watcher(profiler: &Arc<dyn Profiler>) -> Option<Arc<dyn Profiler>> {
    let watcher = WATCHER.get().filter(|watcher| !hands_on(profiler, watcher))?;
    Some(MultiProfiler::beside(profiler.clone(), watcher.clone()))
}

/// Tells the watcher, if there is one, of a stage that began before it watched.
pub(crate) fn stage_began(stage: Stage, run: &RunContext) {
    if let Some(watcher) = WATCHER.get() {
        watcher.setup(stage, run);
    }
}

/// The profilers that measure trainings now, one for each training that runs at once; without those beside them.
pub fn measuring() -> Vec<Arc<dyn Profiler>> {
    let mut all = Vec::new();
    crate::active::tops().iter().for_each(|top| add(top, &mut all));
    all
}

fn add(profiler: &Arc<dyn Profiler>, all: &mut Vec<Arc<dyn Profiler>>) {
    match profiler.parts() {
        [] if all.iter().any(|known| Arc::ptr_eq(known, profiler)) => {}
        [] => all.push(profiler.clone()),
        parts => parts.iter().for_each(|part| add(part, all)),
    }
}
