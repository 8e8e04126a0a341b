//! The NVTX profiler: what the program does, for tools such as Nsight Systems to show.
//!
//! [`NvtxProfiler`] measures nothing itself. It hands a range to the tool for each action, module,
//! function and op, in the domain `mlprof`; the tool shows them beside the kernels and copies that
//! they led to. As Lightning's `PyTorchProfiler(emit_nvtx=True)` and `torch.autograd.profiler.emit_nvtx`.
//!
//! ```sh
//! nsys profile --trace=cuda,nvtx target/release/train
//! nsys profile --trace=cuda,nvtx --capture-range=cudaProfilerApi target/release/train  # with capture(true)
//! ```
//!
//! | category | ranges | payload |
//! |---|---|---|
//! | 1 `action` | actions of training loops and of users | – |
//! | 2 `module` | layers of a model | – |
//! | 3 `op` | tensor ops | the number that ties a backward op to its forward op, if known |
//! | 4 `function` | functions with `#[profiled]`, `tracing` spans | – |
//! | 5 `step` | training steps, as ranges that may overlap others | the step's number, from 0 |
//!
//! *Cost*: without a tool nothing is wanted, so that hooks stay off. With one: a thread-local
//! look-up, a few loads and the tool's own function; nothing is allocated for a name that was there
//! before. *How it fails*: if no tool listens, or it cannot be loaded, the report says so.

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

/// Hands ranges to a tool that listens to NVTX; see the [module](self).
///
/// ```
/// use mlprof_core::nvtx::NvtxProfiler;
/// use mlprof_core::{Profiler, ProfilerExt};
///
/// let profiler = NvtxProfiler::new();
/// {
///     let _range = profiler.profile("load_data");
/// }
/// // Under no tool it does nothing, and says why.
/// assert!(!profiler.is_enabled() && profiler.summary().contains("nsys profile"));
/// ```
pub struct NvtxProfiler {
    number: u64,
    tool: Result<&'static Tool, NotAttached>,
    own_schedule: Option<Schedule>,
    /// Of a schedule that cannot be followed, which took no effect.
    refused: Option<mlprof_events::ScheduleError>,
    /// What the environment says of steps, from the first stage on.
    said_schedule: OnceLock<Schedule>,
    captures: bool,
    /// Whether ranges begin now.
    is_active: AtomicBool,
    /// How many ranges the tool knows of that have not ended; counted if there is a schedule, which
    /// may turn ranges off meanwhile.
    open: AtomicU64,
    state: Mutex<State>,
}

/// Where the training is.
#[derive(Default)]
struct State {
    stages: Stages<Steps>,
    /// Of what runs outside of any stage.
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
    /// Whether the tool was told.
    is_pushed: bool,
    /// Whether it is one of those that are [counted](NvtxProfiler::open).
    is_counted: bool,
    /// It has ended while others inside it had not: the tool is told when they have.
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

/// Their numbers are those of [`names`].
const CATEGORIES: [(u32, &std::ffi::CStr); 5] =
    [(1, c"action"), (2, c"module"), (3, c"op"), (4, c"function"), (5, c"step")];

fn is_kept(schedule: &Schedule, step: u64) -> bool {
    matches!(schedule.phase(step), StepPhase::Record | StepPhase::RecordAndSave)
}

impl NvtxProfiler {
    /// Ranges of everything, from beginning to end. Looks for the tool, once in a process: loads the
    /// library that it names in `NVTX_INJECTION64_PATH`.
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

    /// Sets the steps that have ranges; without a schedule all have.
    ///
    /// A schedule that would never keep a step has no effect, and trainers and sessions refuse the
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

    /// Has CUDA's tools collect only while ranges begin: calls `cuProfilerStart` and
    /// `cuProfilerStop`, for `nsys profile --capture-range=cudaProfilerApi`. Without a
    /// [`schedule`](Self::schedule) from the beginning of the first stage to its end; with one of
    /// several cycles, use `--capture-range-end=repeat` as well.
    #[must_use]
    pub fn capture(mut self, captures: bool) -> Self {
        self.captures = captures;
        self
    }

    /// Why no tool hears anything; `None` if one does.
    pub fn not_attached(&self) -> Option<NotAttached> {
        self.tool.as_ref().err().cloned()
    }

    /// The schedule that holds.
    fn steps_kept(&self) -> Option<&Schedule> {
        self.said_schedule.get().or(self.own_schedule.as_ref())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings ranges and capturing in line with where the training is.
    fn update(&self, state: &mut State) {
        let steps = state.steps();
        let are_ranges_wanted = match self.steps_kept() {
            Some(schedule) => steps.pauses == 0 && is_kept(schedule, steps.step),
            None => true,
        };
        self.is_active.store(are_ranges_wanted && self.tool.is_ok(), Ordering::Relaxed);
        // A validation inside a training interrupts ranges, but not the capture: most tools end with
        // the first one.
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

    /// The schedule may have turned ranges on or off.
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
        // A thread that is being torn down has no ranges any more.
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

    /// Ends a step and begins the next one, outside of pauses.
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

    /// Ends the running step, until [`resume_steps`](Self::resume_steps).
    fn pause_steps(&self) {
        {
            let mut state = self.state();
            state.steps().pauses += 1;
            self.end_step(state.steps());
            self.update(&mut state);
        }
        self.tell_hooks();
    }

    /// Begins a step after the last pause.
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

    /// Nothing but what kept the tool from hearing or collecting something.
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
