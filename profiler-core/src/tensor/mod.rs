//! The Tensor profiler: every op of a few training steps, with shapes, memory and kernels.

mod control;
mod cycle;
mod event;
mod export;
mod profile;
mod recording;
mod schedule;
mod settings;
mod steps;
mod track;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Clock;
use crate::hook::{self, DeviceEvent, MemoryChange, MemoryLabel, OpStart};
use crate::{Action, ActionKind, Interest, NeverStarted, Output, Profiler, RunContext, Stage};

use control::Control;
pub use cycle::{ContextActions, Cycle, Track};
pub use event::{Event, MemoryEvent};
pub use recording::Dropped;
use recording::{Memory, Recording};
pub use schedule::{InvalidSchedule, Schedule, StepPhase};
pub use settings::DeviceTiming;
use settings::Settings;

/// Not a recording's number: nothing was started yet.
const NOT_BEGUN: u64 = u64::MAX;
/// Not a recording's number: the running step is not recorded.
const NOT_RECORDING: u64 = 0;

/// Records every action, module and op of the steps that its [`Schedule`] says: the counterpart of
/// `torch.profiler` and of Lightning's `PyTorchProfiler`.
pub struct TensorProfiler {
    /// The number of the recording that threads record into, [`NOT_BEGUN`] or [`NOT_RECORDING`].
    recording: AtomicU64,
    /// The step that runs, for contexts.
    step: AtomicU64,
    clock: Clock,
    /// The recording of that number.
    current: Mutex<Option<Arc<Recording>>>,
    control: Mutex<Control>,
    memory: Arc<Memory>,
    settings: Settings,
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
        Self {
            recording: AtomicU64::new(NOT_BEGUN),
            step: AtomicU64::new(0),
            clock: Clock::new(),
            current: Mutex::default(),
            control: Mutex::new(Control::new()),
            memory: Arc::new(Memory::new()),
            settings: Settings::default(),
            output: Output::new(),
        }
    }

    /// Writes reports to files in this directory, if there is a [`filename`](Self::filename) too,
    /// and traces in any case.
    #[must_use]
    pub fn dirpath(mut self, dirpath: impl Into<PathBuf>) -> Self {
        self.output = self.output.dirpath(dirpath);
        self
    }

    /// Writes reports to `{stage}-{filename}[-{rank}].txt`; see [`Output`].
    #[must_use]
    pub fn filename(mut self, filename: impl Into<String>) -> Self {
        self.output = self.output.filename(filename);
        self
    }

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
        match self.recording.load(Ordering::Relaxed) {
            NOT_RECORDING => None,
            NOT_BEGUN => self.begin(),
            number => Some(number),
        }
    }

    /// Tells hooks whose work is done elsewhere which actions are open here now.
    #[cold]
    #[inline(never)]
    fn tell_context(&self, number: u64) {
        if let Some(context) = writer::context(number, self.step.load(Ordering::Relaxed)) {
            hook::context_changed(context);
        }
    }
}

impl Profiler for TensorProfiler {
    fn start(&self, action: Action) {
        let Some(number) = self.number() else { return };
        writer::start(number, || self.current_recording(), &OpStart::new(action), &self.clock);
        if hook::wants_context() {
            self.tell_context(number);
        }
    }

    /// Never fails: what was started before the recording began is not known to it.
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        let Some(number) = self.number() else { return Ok(()) };
        writer::stop(number, || self.current_recording(), action, &self.clock);
        if hook::wants_context() && !matches!(action.kind(), ActionKind::Op | ActionKind::Launch) {
            self.tell_context(number);
        }
        Ok(())
    }

    fn start_op(&self, op: &OpStart<'_>) {
        let Some(number) = self.number() else { return };
        writer::start(number, || self.current_recording(), op, &self.clock);
    }

    fn memory(&self, change: &MemoryChange) {
        let Some(number) = self.number() else { return };
        writer::memory(number, || self.current_recording(), change, &self.clock);
    }

    fn label_memory(&self, label: &MemoryLabel) {
        if let Some(recording) = self.current_recording() {
            recording.add_label(*label);
        }
    }

    fn device_event(&self, event: &DeviceEvent) {
        if let Some(recording) = self.current_recording() {
            recording.add_device_event(*event);
        }
    }

    fn interest(&self) -> Interest {
        match self.number() {
            Some(_) => self.settings.interest(),
            None => Interest::NONE,
        }
    }

    fn step(&self) {
        self.next_step();
    }

    fn pause(&self) {
        self.pause_steps();
    }

    fn resume(&self) {
        self.resume_steps();
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        self.output.setup(stage, run);
        self.begin_stage(stage, run);
    }

    fn teardown(&self, stage: Option<Stage>) {
        self.end_stage(stage);
        self.output.teardown(stage);
    }

    fn output(&self) -> Option<&Output> {
        Some(&self.output)
    }

    fn describe(&self) {
        self.finish_stage();
        crate::output::deliver(Some(&self.output), &self.summary());
        self.teardown(None);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
