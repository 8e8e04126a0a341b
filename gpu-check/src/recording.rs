//! A recording by the Tensor profiler, with all that was told of devices on its way there.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mlprof_core::hook::{DeviceActivity, DeviceEvent, Observation, TimingMethod};
use mlprof_core::report::tensor::TensorReport;
use mlprof_core::tensor::{Cycle, Dropped, Schedule};
use mlprof_core::{
    Action, Inner, NeverStarted, Profiler, RunContext, Stage, TensorProfiler, activate,
};

/// What is recorded, and what is kept of it.
#[derive(Debug, Default)]
pub struct Plan {
    /// How many steps, all of which are recorded; without any, all that is done is.
    pub steps: Option<u64>,
    /// How many events there is room for, if not as many as usual.
    pub max_events: Option<u64>,
    /// Whether all events of devices are kept, and not only counted.
    pub keeps_events: bool,
    /// Where a trace is written.
    pub trace: Option<PathBuf>,
}

/// Something on a device. Times in nanoseconds since the recording began.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub name: &'static str,
    pub activity: DeviceActivity,
    pub method: TimingMethod,
    pub start: i64,
    pub end: i64,
    pub correlation: u32,
    /// Whether the driver told of it (through CUPTI), and not a framework.
    pub is_of_driver: bool,
    /// What was open where it was called, the outermost first, as far as that is known.
    pub actions: Vec<&'static str>,
}

impl Event {
    fn of(event: &DeviceEvent, cycle: &Cycle) -> Self {
        let place = event.context.and_then(|context| cycle.context(context));
        let actions = place.map_or(&[][..], |place| place.actions);
        Self {
            name: event.action.name(),
            activity: event.activity,
            method: event.method,
            start: cycle.nanoseconds_since_start(event.start),
            end: cycle.nanoseconds_since_start(event.end),
            correlation: event.correlation,
            is_of_driver: is_of_driver(event),
            actions: actions.iter().map(|action| action.name()).collect(),
        }
    }

    /// How long it took, in nanoseconds.
    pub fn nanoseconds(&self) -> f64 {
        (self.end - self.start) as f64
    }
}

/// Only the driver knows its contexts.
fn is_of_driver(event: &DeviceEvent) -> bool {
    event.method == TimingMethod::Driver || event.driver_context != 0
}

/// A recording that is over.
#[derive(Debug, Default)]
pub struct Recording {
    /// What devices did, as it was told, by frameworks and by the driver; if it was to be kept.
    pub told: Vec<Event>,
    /// What became of that.
    pub events: Vec<Event>,
    /// How many kernels the driver told of.
    pub kernels: u64,
    /// How many things of devices anybody told of, samples of their counters included.
    pub told_count: u64,
    /// What there was no room for.
    pub dropped: Dropped,
    /// How many things of devices there was room for.
    pub kept_count: u64,
    /// Kernels that were told of twice, and not counted alike.
    pub told_twice: u64,
    /// Why there is no trace, if there is none.
    pub trace_error: Option<String>,
}

/// A recording and the report of it.
pub struct Recorded {
    pub recording: Recording,
    pub report: TensorReport,
    /// The report as users see it.
    pub text: String,
    /// From the end of the work to the report.
    pub seconds_to_report: f64,
}

impl Recorded {
    /// Whether a note of the report has these words.
    pub fn has_note(&self, words: &str) -> bool {
        self.report.header.notes.iter().any(|note| note.contains(words))
    }
}

/// What is told while the recording is under way.
#[derive(Default)]
struct Told {
    keeps: bool,
    events: Mutex<Vec<DeviceEvent>>,
    kernels: AtomicU64,
    count: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands everything on to a Tensor profiler, and keeps what is told of devices.
struct Keeper {
    inner: Arc<TensorProfiler>,
    told: Arc<Told>,
}

impl Profiler for Keeper {
    fn start(&self, action: Action) {
        self.inner.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.inner.stop(action)
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::DeviceEvent(event) => {
                self.told.count.fetch_add(1, Ordering::Relaxed);
                if event.activity == DeviceActivity::Kernel && is_of_driver(event) {
                    self.told.kernels.fetch_add(1, Ordering::Relaxed);
                }
                if self.told.keeps {
                    lock(&self.told.events).push(**event);
                }
            }
            Observation::DeviceCounter(_) => {
                self.told.count.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.inner.observe(observation);
    }

    fn inner(&self) -> Inner<'_> {
        Inner::of(&*self.inner)
    }
}

impl Recording {
    fn of(cycle: &Cycle, told: &Told, plan: &Plan) -> Self {
        let trace = plan.trace.as_ref().map(|path| (path, cycle.export_chrome_trace(path)));
        let trace_error = trace.and_then(|(path, written)| {
            written.err().map(|error| format!("{}: {error}", path.display()))
        });
        let mut recording = Self {
            kernels: told.kernels.load(Ordering::Relaxed),
            told_count: told.count.load(Ordering::Relaxed),
            dropped: cycle.dropped,
            kept_count: (cycle.device_events.len() + cycle.device_counters.len()) as u64,
            told_twice: cycle.kernels_told_twice,
            trace_error,
            ..Self::default()
        };
        if plan.keeps_events {
            let events = lock(&told.events);
            let all = events.iter().map(|event| Event::of(event, cycle));
            // What was over before is not in the recording either.
            recording.told = all.filter(|event| !event.is_of_driver || event.end >= 0).collect();
            let shown = cycle.device_events.iter().map(|event| Event::of(event, cycle));
            recording.events = shown.collect();
        }
        recording
    }
}

/// Records what `work` does, and makes the report of it. `work` is given the profiler, whose
/// [`step`](mlprof_core::ProfilerExt::step) it calls if the plan has steps.
pub fn record(
    plan: Plan,
    work: impl FnOnce(&dyn Profiler) -> Result<(), String>,
) -> Result<Recorded, String> {
    let mut profiler = match plan.steps {
        None => TensorProfiler::new().without_schedule(),
        Some(steps) => {
            let schedule = Schedule::new().wait(0).warmup(0).active(steps).repeat(1);
            TensorProfiler::new().schedule(schedule)
        }
    };
    if let Some(events) = plan.max_events {
        profiler = profiler.max_events(events);
    }
    let told = Arc::new(Told { keeps: plan.keeps_events, ..Told::default() });
    let recording: Arc<Mutex<Option<Recording>>> = Arc::default();
    let (heard, place) = (told.clone(), recording.clone());
    let profiler = profiler.on_trace_ready(move |cycle| {
        let made = Recording::of(cycle, &heard, &plan);
        lock(&place).get_or_insert(made);
    });
    let inner = Arc::new(profiler);
    let keeper: Arc<dyn Profiler> = Arc::new(Keeper { inner: inner.clone(), told });
    keeper.setup(Stage::Fit, &RunContext::default());
    let active = activate(keeper.clone());
    let worked = work(&*keeper);
    let ended = Instant::now();
    drop(active);
    keeper.teardown(None);
    let text = keeper.summary();
    let seconds_to_report = ended.elapsed().as_secs_f64();
    worked?;
    let recording = lock(&recording).take().ok_or("nothing was recorded")?;
    Ok(Recorded { recording, report: inner.snapshot(), text, seconds_to_report })
}
