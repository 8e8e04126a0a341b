//! Recordings by the Tensor profiler, with all device events that it received.

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

/// Options of a recording.
#[derive(Debug, Default)]
pub struct Plan {
    /// Number of steps, all of which are recorded. `None` records without steps.
    pub steps: Option<u64>,
    /// Event capacity, if it differs from the default.
    pub max_events: Option<u64>,
    /// Keeps all device events instead of only counting them.
    pub keeps_events: bool,
    /// File for a trace.
    pub trace: Option<PathBuf>,
}

/// An event on a device. Times are in nanoseconds since the recording began.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub name: &'static str,
    pub activity: DeviceActivity,
    pub method: TimingMethod,
    pub start: i64,
    pub end: i64,
    pub correlation: u32,
    /// `true` if the driver reported the event through CUPTI, `false` for a framework.
    pub is_of_driver: bool,
    /// Open actions and functions at the call, outermost first, if known.
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

    /// Returns the duration in nanoseconds.
    pub fn nanoseconds(&self) -> f64 {
        (self.end - self.start) as f64
    }
}

/// Returns `true` if the driver reported the event. Only the driver knows its contexts.
fn is_of_driver(event: &DeviceEvent) -> bool {
    event.method == TimingMethod::Driver || event.driver_context != 0
}

/// A completed recording.
#[derive(Debug, Default)]
pub struct Recording {
    /// Device events as frameworks and the driver reported them, if they were kept.
    pub told: Vec<Event>,
    /// Device events that remained after merging both sources.
    pub events: Vec<Event>,
    /// Number of kernels that the driver reported.
    pub kernels: u64,
    /// Number of device events and counter samples that were reported by any source.
    pub told_count: u64,
    /// Events that exceeded the capacity.
    pub dropped: Dropped,
    /// Number of device events and counter samples that were kept.
    pub kept_count: u64,
    /// Number of kernels that two sources reported with different counts.
    pub told_twice: u64,
    /// Reason why the trace is missing, if it is.
    pub trace_error: Option<String>,
}

/// A recording and its report.
pub struct Recorded {
    pub recording: Recording,
    pub report: TensorReport,
    /// The report's text output.
    pub text: String,
    /// Time from the end of the work to the report in seconds.
    pub seconds_to_report: f64,
}

impl Recorded {
    /// Returns `true` if a note of the report contains `words`.
    pub fn has_note(&self, words: &str) -> bool {
        self.report.header.notes.iter().any(|note| note.contains(words))
    }
}

/// Events received during the recording.
#[derive(Default)]
struct Received {
    keeps: bool,
    events: Mutex<Vec<DeviceEvent>>,
    kernels: AtomicU64,
    count: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forwards all events to a Tensor profiler and keeps the device events.
struct Keeper {
    inner: Arc<TensorProfiler>,
    told: Arc<Received>,
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
    fn of(cycle: &Cycle, told: &Received, plan: &Plan) -> Self {
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
            // Driver events that ended before the recording began are not in the recording either.
            recording.told = all.filter(|event| !event.is_of_driver || event.end >= 0).collect();
            let shown = cycle.device_events.iter().map(|event| Event::of(event, cycle));
            recording.events = shown.collect();
        }
        recording
    }
}

/// Records the work of `work` and creates its report. `work` receives the profiler, and calls its
/// [`step`](mlprof_core::ProfilerExt::step) if the plan has steps.
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
    let told = Arc::new(Received { keeps: plan.keeps_events, ..Received::default() });
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
