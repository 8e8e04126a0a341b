//! Attachment point of an external watcher, such as `mlprof-live`, to all trainings of the process.
//!
//! A watcher is a profiler. Initially it only counts steps, and it requests further events on
//! demand. It is attached to the profiler of each training, so it receives that training's stages
//! and steps. It is also activated for the whole process, so it receives other events as soon as
//! its interest changes.

use std::sync::{Arc, OnceLock, PoisonError};

use mlprof_events::environment::{Environment, Switch};
use mlprof_events::forking::Mutex;
use mlprof_events::{CounterSample, Observation};
use mlprof_report::output::say;

use crate::active::{activate_beside, hands_on};
use crate::multi::MultiProfiler;
use crate::{Activated, Profiler, ProfilerExt, RunContext, Stage};

static WATCHER: OnceLock<Arc<dyn Profiler>> = OnceLock::new();
/// Activation of the watcher, kept until the process ends.
static ACTIVATED: Mutex<Option<Activated>> = Mutex::new(None);

/// Attaches `watcher` to all trainings that begin from now on, for the rest of the process. A
/// process has at most one watcher. Returns `false` if another one is already attached.
pub fn watch_all(watcher: Arc<dyn Profiler>) -> bool {
    if WATCHER.set(watcher.clone()).is_err() {
        return false;
    }
    let activated = activate_beside(watcher);
    *ACTIVATED.lock().unwrap_or_else(PoisonError::into_inner) = Some(activated);
    true
}

/// Functions that make the process accept watchers and stop accepting them.
#[derive(Debug, Clone, Copy)]
pub struct Listening {
    /// Starts listening, unless it has already started. Returns the reason on failure.
    pub begin: fn() -> Result<(), String>,
    /// Stops listening.
    pub end: fn(),
}

static LISTENING: OnceLock<Listening> = OnceLock::new();

/// Registers the listener that `.live(true)` of trainers and sessions, and `mlprof run --live`,
/// start. The crate that provides it must call this once, before any other function that runs
/// before `main`.
pub fn can_listen(listening: Listening) {
    // An earlier registration works equally well.
    let _ = LISTENING.set(listening);
}

/// Makes the process accept watchers, for `.live(true)` of a trainer or session. `MLPROF_LIVE=0`
/// disables it. A failure is printed on standard error and does not stop the training.
pub fn listen() {
    if Environment::get().live == Some(Switch::Off) {
        return;
    }
    let begun = match LISTENING.get() {
        Some(listening) => (listening.begin)(),
        None => Err(NOT_BUILT.to_owned()),
    };
    if let Err(error) = begun {
        say(format_args!("mlprof: live inspection is off: {error}"));
    }
}

/// Reason why a process without `mlprof-live` cannot listen.
const NOT_BUILT: &str = "the program was built without live monitoring; turn on the feature `live` \
                         of its mlprof plugin, or add the crate mlprof-live";

/// Prints the environment variables that have no effect because the program was built without
/// `mlprof-live`.
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

// SAFETY: the function only reads the environment and may write a line. The standard library
// supports both before `main`.
mlprof_events::before_main!(unsafe explain_unheeded_variables);

/// Function that samples the current counters of all devices.
type Devices = fn() -> Vec<CounterSample>;

static DEVICES: OnceLock<Devices> = OnceLock::new();

/// Registers the function that [`devices_now`] calls. The crate that provides it must call this
/// once.
pub fn can_tell_of_devices(devices: Devices) {
    // An earlier registration works equally well.
    let _ = DEVICES.set(devices);
}

/// Returns one current sample for each device counter. The result is empty if no sampler is
/// registered. *Cost*: some milliseconds per device, without delaying other threads.
pub fn devices_now() -> Vec<CounterSample> {
    DEVICES.get().map(|devices| devices()).unwrap_or_default()
}

/// Stops listening, because another copy of this crate listens instead. Called before any training
/// runs.
pub(crate) fn stop_listening() {
    let Some(listening) = LISTENING.get() else { return };
    (listening.end)();
    let activated = ACTIVATED.lock().unwrap_or_else(PoisonError::into_inner).take();
    drop(activated);
}

/// Reports the end of a training step to the watcher. Instrumented code calls it for steps that no
/// training loop reports.
pub(crate) fn step() {
    if let Some(watcher) = WATCHER.get() {
        watcher.observe(&Observation::StepEnd);
    }
}

/// Returns `profiler` combined with the watcher. Returns `None` if there is no watcher or
/// `profiler` already forwards events to it.
pub(crate) fn with_watcher(profiler: &Arc<dyn Profiler>) -> Option<Arc<dyn Profiler>> {
    let watcher = WATCHER.get().filter(|watcher| !hands_on(profiler, watcher))?;
    Some(MultiProfiler::beside(profiler.clone(), watcher.clone()))
}

/// Reports a stage to the watcher that began before the watcher was attached.
pub(crate) fn stage_began(stage: Stage, run: &RunContext) {
    if let Some(watcher) = WATCHER.get() {
        watcher.setup(stage, run);
    }
}

/// Returns the profilers of all current trainings, one per concurrent training, without attached
/// profilers.
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
