//! The NVTX profiler, which shows the program's actions in tools such as Nsight Systems.
//!
//! [`NvtxProfiler`] takes no measurements itself. It emits a range in the domain `mlprof` for each
//! action, module, function and op. The tool shows these ranges next to the kernels and copies that
//! they launched. It corresponds to Lightning's `PyTorchProfiler(emit_nvtx=True)` and to
//! `torch.autograd.profiler.emit_nvtx`.
//!
//! ```sh
//! nsys profile --trace=cuda,nvtx target/release/train
//! # with capture(true)
//! nsys profile --trace=cuda,nvtx --capture-range=cudaProfilerApi target/release/train
//! ```
//!
//! | category | ranges | payload |
//! |---|---|---|
//! | 1 `action` | actions of training loops and of user code | – |
//! | 2 `module` | layers of a model | – |
//! | 3 `op` | tensor ops | the sequence number that links a backward op to its forward op, if known |
//! | 4 `function` | functions with `#[profiled]`, `tracing` spans | – |
//! | 5 `step` | training steps, as ranges that may overlap others | the step's number, from 0 |
//!
//! *Cost*: without a tool, the profiler wants no events, so hooks stay off. With a tool, each range
//! costs a thread-local lookup, a few loads and the tool's own function. Only the first use of a
//! name allocates. *Errors*: the report shows that no tool is attached, or that the tool cannot be
//! loaded.

mod capture;
mod emit;
mod names;
mod tool;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError};

pub use emit::EmitNvtxExt;
pub use tool::NotAttached;

use self::names::range_of;
use self::tool::Tool;
use crate::hook::{self, OpStart};
use crate::profiler::{Inner, Internals};
use crate::{Action, ActionKind, Interest, NeverStarted, Observation, Profiler, RunContext, Stage};
use mlprof_events::environment::Environment;
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{Ended, OfStage, Schedule, Stages, StepPhase};

/// Emits ranges to an attached NVTX tool: see the [module](self).
///
/// ```
/// use mlprof_core::nvtx::NvtxProfiler;
/// use mlprof_core::{Profiler, ProfilerExt};
///
/// let profiler = NvtxProfiler::new();
/// {
///     let _range = profiler.profile("load_data");
/// }
/// // Without a tool, the profiler is disabled and its summary gives the reason.
/// assert!(!profiler.is_enabled() && profiler.summary().contains("nsys profile"));
/// ```
pub struct NvtxProfiler {
    number: u64,
    tool: Result<&'static Tool, NotAttached>,
    own_schedule: Option<Schedule>,
    /// Error of a schedule that was rejected.
    refused: Option<mlprof_events::ScheduleError>,
    /// Schedule from the environment, read at the first stage.
    said_schedule: OnceLock<Schedule>,
    captures: bool,
    /// Set while new ranges are emitted.
    is_active: AtomicBool,
    /// Number of open ranges in the tool. They are counted only with a schedule, which may turn
    /// ranges off while some are open.
    open: AtomicU64,
    state: Mutex<State>,
}

/// Position in the training.
#[derive(Default)]
struct State {
    stages: Stages<Steps>,
    /// Steps outside any stage.
    outside: Steps,
    is_capturing: bool,
    notes: Vec<String>,
}

#[derive(Default)]
struct Steps {
    stage: Option<Stage>,
    step: u64,
    range: Option<u64>,
    pauses: u32,
}

impl OfStage for Steps {
    fn stage(&self) -> Option<Stage> {
        self.stage
    }
}

impl State {
    fn steps(&mut self) -> &mut Steps {
        self.stages.last_mut().unwrap_or(&mut self.outside)
    }
}

/// A range of the calling thread.
struct Open {
    profiler: u64,
    action: Action,
    /// Set if the range was emitted to the tool.
    is_pushed: bool,
    /// Set if the range is included in [`NvtxProfiler::open`].
    is_counted: bool,
    /// Set if the range has ended before ranges inside it. The tool is notified after those have
    /// ended.
    is_over: bool,
}

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

impl Default for NvtxProfiler {
    fn default() -> Self {
        Self::new()
    }
}

/// Category numbers and names. The numbers must match those of [`names`].
const CATEGORIES: [(u32, &std::ffi::CStr); 5] =
    [(1, c"action"), (2, c"module"), (3, c"op"), (4, c"function"), (5, c"step")];

fn is_kept(schedule: &Schedule, step: u64) -> bool {
    matches!(schedule.phase(step), StepPhase::Record | StepPhase::RecordAndSave)
}

impl NvtxProfiler {
    /// Creates a profiler that emits ranges for everything. It looks for the tool once per process
    /// and loads the library in `NVTX_INJECTION64_PATH`.
    pub fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        static ARE_NAMED: AtomicBool = AtomicBool::new(false);
        mlprof_events::forking::watch();
        let tool = Tool::get();
        if let Ok(tool) = &tool
            && !ARE_NAMED.swap(true, Ordering::Relaxed)
        {
            CATEGORIES.iter().for_each(|(number, name)| tool.name_category(*number, name));
        }
        Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            is_active: AtomicBool::new(tool.is_ok()),
            open: AtomicU64::new(0),
            tool,
            own_schedule: None,
            refused: None,
            said_schedule: OnceLock::new(),
            captures: false,
            state: Mutex::default(),
        }
    }

    /// Selects the steps with ranges. Without a schedule, all steps have ranges.
    ///
    /// A schedule that would never record a step is ignored. Trainers and sessions then reject the
    /// profiler with [`Error::Schedule`](crate::Error::Schedule).
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        match schedule.check() {
            Ok(()) => {
                self.own_schedule = Some(schedule);
                self.refused = None;
                self.update(&mut self.state());
            }
            Err(error) => self.refused = Some(error),
        }
        self
    }

    /// Limits collection by CUDA tools to the time in which ranges are emitted. It calls
    /// `cuProfilerStart` and `cuProfilerStop`, for `nsys profile --capture-range=cudaProfilerApi`.
    /// Without a [`schedule`](Self::schedule), collection lasts from the beginning of the first
    /// stage to its end. For a schedule with several cycles, also use `--capture-range-end=repeat`.
    #[must_use]
    pub fn capture(mut self, captures: bool) -> Self {
        self.captures = captures;
        self
    }

    /// Returns the reason why no tool is attached, or `None` if one is.
    pub fn not_attached(&self) -> Option<NotAttached> {
        self.tool.as_ref().err().cloned()
    }

    /// Returns the effective schedule.
    fn steps_kept(&self) -> Option<&Schedule> {
        self.said_schedule.get().or(self.own_schedule.as_ref())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates ranges and capturing for the current position in the training.
    fn update(&self, state: &mut State) {
        let steps = state.steps();
        let are_ranges_wanted = match self.steps_kept() {
            Some(schedule) => steps.pauses == 0 && is_kept(schedule, steps.step),
            None => true,
        };
        self.is_active.store(are_ranges_wanted && self.tool.is_ok(), Ordering::Relaxed);
        // A validation inside a training interrupts ranges but not the capture, because most tools
        // exit after the first capture.
        let outermost = state.stages.first().unwrap_or(&state.outside);
        let has_begun = outermost.stage.is_some() || outermost.step > 0;
        let captures = self.captures
            && has_begun
            && self.steps_kept().is_none_or(|schedule| is_kept(schedule, outermost.step));
        if captures != state.is_capturing {
            let done = if captures { capture::start() } else { capture::stop() };
            state.is_capturing = captures;
            if let Err(why) = done
                && !state.notes.contains(&why)
            {
                state.notes.push(why);
            }
        }
    }

    /// Notifies hooks, because the schedule may have turned ranges on or off.
    fn tell_hooks(&self) {
        if self.steps_kept().is_some() {
            hook::interest_changed();
        }
    }

    fn begin_step(&self, steps: &mut Steps) {
        if let Ok(tool) = self.tool
            && self.is_active.load(Ordering::Relaxed)
        {
            let action = Action::of_kind(ActionKind::Step, "ProfilerStep", None);
            steps.range = Some(tool.start(range_of(action, tool), Some(steps.step)));
        }
    }

    fn end_step(&self, steps: &mut Steps) {
        if let (Ok(tool), Some(range)) = (&self.tool, steps.range.take()) {
            tool.end(range);
        }
    }

    fn open(&self, action: Action, payload: Option<u64>) {
        let is_pushed = self.is_active.load(Ordering::Relaxed);
        let Ok(tool) = self.tool else { return };
        // A thread that is being torn down no longer has ranges.
        let _ = OPEN.try_with(|open| {
            let is_counted = is_pushed && self.steps_kept().is_some();
            open.borrow_mut().push(Open {
                profiler: self.number,
                action,
                is_pushed,
                is_counted,
                is_over: false,
            });
            if is_counted {
                self.open.fetch_add(1, Ordering::Relaxed);
            }
            if is_pushed {
                tool.push(range_of(action, tool), payload);
            }
        });
    }

    fn close(&self, open: &mut Vec<Open>, tool: &Tool, action: Action) -> Result<(), NeverStarted> {
        let is_it =
            |open: &Open| open.profiler == self.number && open.action == action && !open.is_over;
        let found = open.iter_mut().rev().find(|open| is_it(open));
        found.ok_or(NeverStarted(action))?.is_over = true;
        while let Some(last) = open.pop_if(|last| last.is_over) {
            if last.is_pushed {
                tool.pop();
                if last.profiler == self.number && last.is_counted {
                    self.open.fetch_sub(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Ends a step and begins the next one, except during pauses.
    fn next_step(&self) {
        {
            let mut state = self.state();
            if state.steps().pauses > 0 {
                return;
            }
            self.end_step(state.steps());
            state.steps().step += 1;
            self.update(&mut state);
            self.begin_step(state.steps());
        }
        self.tell_hooks();
    }

    /// Ends the current step, until [`resume_steps`](Self::resume_steps).
    fn pause_steps(&self) {
        {
            let mut state = self.state();
            state.steps().pauses += 1;
            self.end_step(state.steps());
            self.update(&mut state);
        }
        self.tell_hooks();
    }

    /// Begins a step when the last open pause ends.
    fn resume_steps(&self) {
        {
            let mut state = self.state();
            let steps = state.steps();
            steps.pauses = steps.pauses.saturating_sub(1);
            let goes_on = steps.pauses == 0;
            self.update(&mut state);
            if goes_on {
                self.begin_step(state.steps());
            }
        }
        self.tell_hooks();
    }
}

impl Profiler for NvtxProfiler {
    fn start(&self, action: Action) {
        self.open(action, None);
    }

    fn start_op(&self, op: &OpStart<'_>) {
        self.open(op.action, (op.sequence > 0).then(|| op.sequence.into()));
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        let Ok(tool) = self.tool else { return Ok(()) };
        let close = |open: &RefCell<Vec<Open>>| self.close(&mut open.borrow_mut(), tool, action);
        OPEN.try_with(close).unwrap_or(Ok(()))
    }

    fn interest(&self) -> Interest {
        if self.is_active.load(Ordering::Relaxed) || self.open.load(Ordering::Relaxed) > 0 {
            Interest::ACTIONS | Interest::FUNCTIONS | Interest::OPS
        } else {
            Interest::NONE
        }
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::StepEnd => self.next_step(),
            Observation::StepsPaused => self.pause_steps(),
            Observation::StepsResumed => self.resume_steps(),
            _ => {}
        }
    }

    fn setup(&self, stage: Stage, _run: &RunContext) {
        if let Some(said) = Environment::get().schedule {
            self.said_schedule.get_or_init(|| said);
        }
        {
            let mut state = self.state();
            let begun = Steps { stage: Some(stage), ..Steps::default() };
            for mut steps in state.stages.begin(begun) {
                self.end_step(&mut steps);
            }
            self.update(&mut state);
            self.begin_step(state.steps());
        }
        self.tell_hooks();
    }

    fn teardown(&self, stage: Option<Stage>) {
        {
            let mut state = self.state();
            let Some(Ended { own, inside }) = state.stages.end(stage) else { return };
            for mut steps in std::iter::once(own).chain(inside) {
                self.end_step(&mut steps);
            }
            self.update(&mut state);
        }
        self.tell_hooks();
    }

    /// Returns the problems that kept the tool from receiving ranges or collecting data.
    fn summary(&self) -> String {
        let state = self.state();
        let no_tool = self.tool.as_ref().err().map(ToString::to_string);
        let notes = no_tool.iter().chain(&state.notes);
        notes.map(|note| format!("NVTX: {note}\n")).collect()
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for NvtxProfiler {
    fn refused_setting(&self) -> Option<crate::Error> {
        self.refused.clone().map(crate::Error::from)
    }

    fn is_enabled(&self) -> bool {
        self.tool.is_ok() || self.captures
    }
}
