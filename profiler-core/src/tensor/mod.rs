//! The Tensor profiler, which records every op of a few training steps with shapes, memory and
//! kernels.
//!
//! The path from a hook to a report:
//!
//! * `writer` records the events of one thread: its open scopes, and a log of fixed-size events
//!   with a single writer. A `recording` contains the tracks of all threads for a period of time.
//! * `steps` begins and ends recordings according to the [`Schedule`], for the stages in `control`.
//! * A finished recording becomes a read-only [`Cycle`]. Its events are added to the stage's
//!   `Profile`, which is the source of the tables. `export` writes its trace.

mod control;
mod export;
mod export_settings;
mod fallback;
mod notes;
mod recording;
#[cfg(feature = "trace-formats")]
mod reparse;
mod report_settings;
mod settings;
mod steps;
mod summary;
#[cfg(feature = "parquet")]
mod tables;
mod trace_formats;
mod trace_settings;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use crate::output::RenderedReport;
use crate::profiler::{Inner, Internals};
use crate::{
    Action, ActionKind, Interest, NeverStarted, Output, Profiler, Report, RunContext, Stage,
};
use mlprof_events::clock::{self, Clock};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::uncounted;
use mlprof_events::{Observation, OpStart};

use control::Control;
pub use export_settings::trace_handler;
#[doc(hidden)]
pub use mlprof_events::StepPhase;
pub use mlprof_events::{GroupBy, Phase, Schedule, ScheduleError};
#[doc(hidden)]
pub use mlprof_trace::{ContextActions, MemoryEvent, bytes, flops};
pub use mlprof_trace::{Cycle, Dropped, Event, TraceOptions, Track};
use recording::{Memory, Recording};
pub use settings::DeviceTiming;
use settings::Settings;
pub use trace_formats::TraceFormat;
use trace_settings::Switches;

/// Special value instead of a recording's number: no recording has started yet.
const NOT_BEGUN: u64 = u64::MAX;
/// Special value instead of a recording's number: the current step is not recorded.
const NOT_RECORDING: u64 = 0;

/// Records every action, module and op of the steps selected by its [`Schedule`]. It is the
/// counterpart of `torch.profiler` and of Lightning's `PyTorchProfiler`.
///
/// ```
/// use mlprof_core::tensor::Schedule;
/// use mlprof_core::{ProfilerExt, RunContext, Session, Stage, TensorProfiler, profile};
/// use std::sync::Arc;
///
/// let schedule = Schedule::new().wait(1).warmup(1).active(2); // steps 2 and 3
/// let profiler = Arc::new(TensorProfiler::new().schedule(schedule));
/// let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default())?;
/// for _step in 0..5 {
///     let _scope = profile!("training_step");
///     // … forward, backward, optimizer …
///     drop(_scope);
///     mlprof_core::ProfilerExt::step(&*profiler); // trainers call it themselves
/// }
/// drop(session); // prints the table
/// # Ok::<(), mlprof_core::Error>(())
/// ```
///
/// *Contents*: all events of hooks and guards while a step is recorded. Ops come from the plugin of
/// a framework. A scope opened before the recording begins is not included. A scope still open at
/// its end is included and marked as unfinished.
///
/// *Short runs*: up to five first steps of a stage, and its warm-up, are recorded as a fallback. If
/// the stage ends before its first active step has ended, the report shows them with a note.
/// Otherwise they are discarded.
///
/// *Cost*: outside these steps and the schedule's warm-up and active steps, a guard costs one or
/// two loads, and hooks are off. While recording, an op costs about 1.6 times the minimum (two
/// counter readings and a push), or 2.3 times with shapes (`cargo xtask bench scopes`). It also
/// needs 40 bytes of memory. At the end of a cycle, the thread that ends the step aggregates the
/// events and writes the trace.
///
/// *Memory* is bounded by [`max_events`](Self::max_events). Dropped events are counted and
/// reported. Between cycles, memory depends on the number of distinct ops, not on the number of
/// steps.
///
/// *Threads* record concurrently without locks.
pub struct TensorProfiler {
    /// Number of the current recording, [`NOT_BEGUN`] or [`NOT_RECORDING`].
    recording: AtomicU64,
    /// Current step, used in contexts.
    step: AtomicU64,
    /// Set when [`interest`](Profiler::interest) has been called.
    was_asked: AtomicBool,
    clock: Clock,
    /// The current recording.
    current: Mutex<Option<Arc<Recording>>>,
    control: Mutex<Control>,
    memory: Arc<Memory>,
    settings: Settings,
    trace: Mutex<TraceOptions>,
    switches: Switches,
    #[cfg(feature = "parquet")]
    tables: Mutex<tables::Folders>,
    output: Output,
}

impl Default for TensorProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl TensorProfiler {
    /// Creates a profiler with shapes but no memory, the [default schedule](Schedule::default) and
    /// a report on the console.
    pub fn new() -> Self {
        mlprof_events::forking::watch();
        Self {
            recording: AtomicU64::new(NOT_BEGUN),
            step: AtomicU64::new(0),
            was_asked: AtomicBool::new(false),
            clock: Clock::new(),
            current: Mutex::default(),
            control: Mutex::new(Control::new()),
            memory: Arc::new(Memory::new()),
            settings: Settings::default(),
            trace: Mutex::default(),
            switches: Switches::default(),
            #[cfg(feature = "parquet")]
            tables: Mutex::default(),
            output: Output::new().of_kind("tensor"),
        }
    }

    crate::output_settings::output_settings!("tensor", ", and traces in any case");
    crate::output_settings::verdict_setting!();

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Recording>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current_recording(&self) -> Option<Arc<Recording>> {
        self.current().clone()
    }

    /// Returns the number of the current recording, if there is one.
    #[inline(always)]
    fn number(&self) -> Option<u64> {
        if !clock::IS_THERE {
            return None;
        }
        match self.recording.load(Ordering::Relaxed) {
            NOT_RECORDING => None,
            NOT_BEGUN => uncounted(|| self.begin()),
            number => Some(number),
        }
    }

    /// Returns `true` if any event has been received.
    fn has_begun(&self) -> bool {
        self.recording.load(Ordering::Relaxed) != NOT_BEGUN
    }

    /// Returns `true` if this profiler has been active, so that it received events of hooks.
    fn was_active(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }

    /// Adds a note to the report of the current stage, once.
    fn note(&self, text: &str) {
        uncounted(|| {
            let mut control = self.control();
            let notes = &mut control.top().notes;
            if notes.iter().all(|known| known != text) {
                notes.push(text.to_owned());
            }
        });
    }

    /// Reports the open actions of this thread to hooks whose work runs on other threads.
    #[cold]
    #[inline(never)]
    fn tell_context(&self, number: u64) {
        if let Some(context) = writer::context(number, self.step.load(Ordering::Relaxed)) {
            crate::instrumentation::context_changed(context);
        }
    }
}

// Code that may hold a lock of this profiler runs in `uncounted`. Otherwise an allocation there
// would be reported to this profiler.
impl Profiler for TensorProfiler {
    fn start(&self, action: Action) {
        let Some(number) = self.number() else { return };
        writer::start(number, || self.current_recording(), &OpStart::new(action), &self.clock);
        if crate::instrumentation::wants_context() {
            self.tell_context(number);
        }
    }

    /// Closes `action` if it is open. It never fails, because the action may have started before
    /// the recording began.
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        let Some(number) = self.number() else { return Ok(()) };
        writer::stop(number, || self.current_recording(), action, &self.clock);
        if crate::instrumentation::wants_context()
            && !matches!(action.kind(), ActionKind::Op | ActionKind::Launch)
        {
            self.tell_context(number);
        }
        Ok(())
    }

    fn start_op(&self, op: &OpStart<'_>) {
        let Some(number) = self.number() else { return };
        writer::start(number, || self.current_recording(), op, &self.clock);
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::Memory(change) => {
                let Some(number) = self.number() else { return };
                writer::memory(number, || self.current_recording(), change, &self.clock);
            }
            Observation::Collective(sequence) => {
                let Some(number) = self.number() else { return };
                writer::mark_collective(number, *sequence);
            }
            Observation::Note(text) | Observation::StageNote(text) => self.note(text),
            Observation::StepEnd => uncounted(|| self.next_step()),
            Observation::StepsPaused => uncounted(|| self.pause_steps()),
            Observation::StepsResumed => uncounted(|| self.resume_steps()),
            Observation::Unattributed(work) => {
                uncounted(|| self.control().top().unattributed.push(Arc::clone(work)));
            }
            Observation::RegionOpened(sinks) => {
                if self.number().is_some()
                    && let Some(recording) = self.current_recording()
                {
                    sinks.add(recording);
                }
            }
            other => {
                if let Some(recording) = self.current_recording() {
                    recording.observe(other);
                }
            }
        }
    }

    fn interest(&self) -> Interest {
        if !self.was_active() {
            self.was_asked.store(true, Ordering::Relaxed);
        }
        match self.number() {
            Some(_) => self.switches.applied(self.settings.interest()),
            None => Interest::NONE,
        }
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        self.output.setup(stage, run);
        uncounted(|| self.begin_stage(stage, run));
    }

    fn teardown(&self, stage: Option<Stage>) {
        uncounted(|| self.end_stage(stage));
        self.output.teardown(stage);
    }

    fn summary(&self) -> String {
        uncounted(|| self.paint_report(&self.snapshot()))
    }

    fn report(&self) -> Option<Report> {
        Some(Report::Tensor(uncounted(|| self.snapshot())))
    }

    fn output(&self) -> Option<&Output> {
        Some(&self.output)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for TensorProfiler {
    fn refused_setting(&self) -> Option<crate::Error> {
        self.settings.refused.clone().map(crate::Error::from)
    }

    fn is_enabled(&self) -> bool {
        true
    }

    fn is_open(&self, action: Action) -> bool {
        self.number().is_some_and(|number| writer::is_open(number, action))
    }

    /// Ends the current cycle. Events from here to the next step are not included in any report.
    fn render(&self) -> RenderedReport {
        uncounted(|| {
            self.finish_stage();
            let (report, missing) = self.snapshot_and_missing();
            let text = self.paint_report(&report);
            RenderedReport::new(text, Some(Report::Tensor(report))).with_missing(missing)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
