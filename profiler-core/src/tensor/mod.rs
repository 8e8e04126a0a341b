//! The Tensor profiler: every op of a few training steps, with shapes, memory and kernels.
//!
//! From a hook to a report:
//!
//! * `writer` is how a thread records: its open scopes, and a log of fixed-size events that it
//!   alone writes. A `recording` is all threads' tracks from one moment to another.
//! * `steps` begins and ends recordings as the [`Schedule`] says, for the stages in `control`.
//! * A recording that is over becomes a [`Cycle`], which is read, never written. Its events go into
//!   the stage's `Profile`, from which tables are made, and to `export`, which writes the trace.

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
pub use mlprof_trace::{ContextActions, MemoryEvent, flops};
pub use mlprof_trace::{Cycle, Dropped, Event, TraceOptions, Track};
use recording::{Memory, Recording};
pub use settings::DeviceTiming;
use settings::Settings;
pub use trace_formats::TraceFormat;
use trace_settings::Switches;

/// Not a recording's number: nothing was started yet.
const NOT_BEGUN: u64 = u64::MAX;
/// Not a recording's number: the running step is not recorded.
const NOT_RECORDING: u64 = 0;

/// Records every action, module and op of the steps that its [`Schedule`] says: the counterpart of
/// `torch.profiler` and of Lightning's `PyTorchProfiler`.
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
///     mlprof_core::ProfilerExt::step(&*profiler); // trainers do this
/// }
/// drop(session); // prints the table
/// # Ok::<(), mlprof_core::Error>(())
/// ```
///
/// *What is recorded*: whatever hooks and guards start and stop while a step is recorded. Ops come
/// from the plugin of a framework. A scope that is opened before the recording begins is not in it;
/// one that is still open at its end is, marked as unfinished.
///
/// *Short runs*: the first steps of a stage, five at most, and its warm-up are recorded in case the
/// stage ends before its first active step does. They are thrown away when that step is over; else
/// they are what the report shows, and its notes say so.
///
/// *What it costs*: outside of those and of the schedule's warm-up and active steps one or two loads
/// per guard, and hooks are off. While it records, an op costs some 1.6 times the least that is possible (two
/// readings of the counter and a push), with shapes 2.3 times (`cargo xtask bench scopes`), and 40
/// bytes of memory. At the end of a cycle the thread that ends the step puts the events into the
/// table and writes the trace.
///
/// *Memory* is bounded by [`max_events`](Self::max_events); what is dropped is counted and printed.
/// Between cycles it depends on how many different ops there are, not on how many steps.
///
/// *Threads* record side by side without locks.
pub struct TensorProfiler {
    /// The number of the recording that threads record into, [`NOT_BEGUN`] or [`NOT_RECORDING`].
    recording: AtomicU64,
    /// The step that runs, for contexts.
    step: AtomicU64,
    /// Whether it was ever asked what it wants.
    was_asked: AtomicBool,
    clock: Clock,
    /// The recording of that number.
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
    /// Shapes but no memory, the [default schedule](Schedule::default), a report on the console.
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

    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Recording>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn current_recording(&self) -> Option<Arc<Recording>> {
        self.current().clone()
    }

    /// The number of the recording to record into, if there is one.
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

    /// Whether anything has been heard of.
    fn has_begun(&self) -> bool {
        self.recording.load(Ordering::Relaxed) != NOT_BEGUN
    }

    /// Whether it was the active profiler, which hooks tell of what happens.
    fn was_active(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }

    /// Said once, with the report of the running stage.
    fn note(&self, text: &str) {
        uncounted(|| {
            let mut control = self.control();
            let notes = &mut control.top().notes;
            if notes.iter().all(|known| known != text) {
                notes.push(text.to_owned());
            }
        });
    }

    /// Tells hooks whose work is done elsewhere which actions are open here now.
    #[cold]
    #[inline(never)]
    fn tell_context(&self, number: u64) {
        if let Some(context) = writer::context(number, self.step.load(Ordering::Relaxed)) {
            crate::instrumentation::context_changed(context);
        }
    }
}

// What may hold a lock of the profiler's is `uncounted`: an allocation there would be told to the
// profiler itself.
impl Profiler for TensorProfiler {
    fn start(&self, action: Action) {
        let Some(number) = self.number() else { return };
        writer::start(number, || self.current_recording(), &OpStart::new(action), &self.clock);
        if crate::instrumentation::wants_context() {
            self.tell_context(number);
        }
    }

    /// Never fails: what was started before the recording began is not known to it.
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

    /// Ends the running cycle: what is recorded from here on to the next step is in no report.
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
