//! The numerics profiler: the numbers in what modules and ops return, in losses, gradients and parameters, and the first of them
//! that is not finite.

mod fault;
#[cfg(all(test, not(loom)))]
mod fault_tests;
mod location;
mod modules;
mod observed;
mod order;
mod readers;
mod record;
#[cfg(all(test, not(loom)))]
mod record_tests;
mod reduced;
mod running;
mod saved;
mod settings;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use self::modules::Modules;
use self::running::Running;
use self::settings::Settings;
use crate::output::RenderedReport;
use crate::profiler::{Inner, Internals};
use crate::report::numerics::{self, NumericsReport};
use crate::report::{Overhead, Report, ReportHeaderParts, SCHEMA_VERSION, Units};
use crate::{Action, Interest, NeverStarted, Output, Profiler, RunContext, Stage, hook};
use mlprof_events::clock::{self, Rate};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{Observation, OpStart, TensorRole, uncounted};

/// Looks at the numbers of a training: in what modules return, in the loss, in gradients, parameters and their updates.
///
/// Of some steps (every [tenth](Self::every)) it records smallest, largest, mean, standard deviation, norms, zeros, subnormals, NaN
/// and infinities of each tensor. In all steps it [looks](Self::watch) whether every number is finite, and names the first tensor of
/// which some are not, as it happens: on standard error, and in its report. Its report says besides what
/// [comes before that](numerics::TroubleKind): gradients that vanish or explode, activations that are dead, updates that are too
/// large or too small, and 16-bit numbers that lose digits.
///
/// *Where tensors come from*: all plugins tell of modules that are `.profile_layer(…)`, and their optimizers for the trainer, or burn's
/// own trainer with a profiler, of losses, gradients and parameters.
///
/// *Ops*: what each op has returned is looked at [if asked for](Self::ops), forward and backward; and in any case in the step after
/// something was not finite, and where a batch is run again, so that the report names the op, too. They are known of tch, and, in a
/// program that `mlprof run --ops … --numerics` has built, of candle and of burn's flex device.
///
/// *What it reads*: tensors in the host's memory, as they are told of. Those on other devices are reduced where they are, in steps that
/// are only watched to two counts, and what came of that is read when the step ends: so nothing waits in its middle, and what is not
/// finite is known an optimizer's step late. What ops return on other devices is not read; the report says how many there were.
///
/// *The record*: with a [directory](Self::dirpath) each recorded step is written when it ends, as lines of JSON in
/// `{stage}-{filename}[-{rank}].numerics.jsonl`: see [`RecordedTensor`](numerics::RecordedTensor).
/// The first line describes the run. Of each
/// recorded step it has the batch, with a hash: the tensors that the program has told of
/// (`record_batch` of the plugins), or else what the first module of the step was given.
///
/// *Cost*: reading each number once, some 0.5 ns, in each step; in recorded steps 1 to 2 ns, and 8 bytes of memory for each
/// number of a parameter until the step ends. *Stages*: what is inside of another stage, as a validation in a fit, is not looked at.
///
/// ```
/// use mlprof_core::{NumericsProfiler, ProfilerExt};
///
/// let profiler = NumericsProfiler::new().every(100).stop_on_nan(true);
/// // … a training with it …
/// # profiler.step();
/// let report = profiler.snapshot();
/// assert_eq!(report.first_not_finite, None);
/// ```
pub struct NumericsProfiler {
    settings: Settings,
    output: Output,
    state: Mutex<Running>,
    modules: Modules,
    /// Some op has told what it returns.
    sees_ops: AtomicBool,
    /// What the running step wants, so that tensors are read outside of the lock.
    wish: AtomicU64,
    /// Whether this step's batch has been seen.
    knows_batch: AtomicBool,
}

/// How tensors are looked at: not at all, for what is not finite, or for all that is recorded. Those of ops by the upper bits.
const NOTHING: u64 = 0;
const FINITE: u64 = 1;
const STATISTICS: u64 = 2;
const OF_OPS: u32 = 8;

impl Default for NumericsProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl NumericsProfiler {
    /// Records every tenth step, beginning with the first, and watches all of them.
    pub fn new() -> Self {
        let profiler = Self {
            settings: Settings::default(),
            output: Output::new().of_kind("numerics"),
            state: Mutex::new(Running::default()),
            modules: Modules::default(),
            sees_ops: AtomicBool::new(false),
            wish: AtomicU64::new(NOTHING),
            knows_batch: AtomicBool::new(false),
        };
        profiler.begin_step(&profiler.state());
        profiler
    }

    crate::output_settings::output_settings!("numerics", ", and the record of numbers");

    fn state(&self) -> MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the step wants that begins now; whether that changes what hooks are to tell.
    fn begin_step(&self, running: &Running) -> bool {
        let every = self.settings.every;
        let is_due = every > 0 && running.step.is_multiple_of(every);
        let wish = match () {
            () if running.is_paused() => NOTHING,
            () if is_due || running.is_closer_look => STATISTICS,
            () if self.settings.watches => FINITE,
            () => NOTHING,
        };
        self.knows_batch.store(false, Ordering::Relaxed);
        let looks_at_ops = self.settings.looks_at_ops || running.is_closer_look;
        self.look(wish, if looks_at_ops { wish } else { NOTHING })
    }

    /// Looks so at tensors, and at those of ops; whether that changes what hooks are to tell.
    fn look(&self, wish: u64, of_ops: u64) -> bool {
        let before = self.wish.swap(wish | of_ops << OF_OPS, Ordering::Relaxed);
        (before >> OF_OPS == NOTHING) != (of_ops == NOTHING)
    }

    /// Begins a step, and tells hooks.
    fn look_anew(&self, running: MutexGuard<'_, Running>) {
        let is_other = self.begin_step(&running);
        drop(running);
        Self::tell_hooks(is_other);
    }

    fn tell_hooks(is_other: bool) {
        if is_other {
            modules::leave_all();
            hook::interest_changed();
        }
    }

    /// How a tensor is looked at in this step.
    fn wish(&self, role: TensorRole) -> u64 {
        let wish = self.wish.load(Ordering::Relaxed);
        if role.is_of_op() { wish >> OF_OPS } else { wish & ((1 << OF_OPS) - 1) }
    }

    /// What devices make of tensors is read, unless it is a validation's step.
    fn await_devices(&self) {
        if !self.state().is_paused() {
            self.read_reduced(self.wish(TensorRole::Output) == STATISTICS);
        }
    }

    fn end_step(&self, running: &mut Running) {
        if self.wish(TensorRole::Output) == STATISTICS {
            running.recorded_steps += 1;
            running.write_record(&self.output, &self.settings);
        }
        running.settle_gradients();
        running.end_closer_look(self.sees_ops.load(Ordering::Relaxed));
        running.end_step();
        self.modules.forget();
    }

    /// The numbers so far, of the stage that runs or ended last.
    pub fn snapshot(&self) -> NumericsReport {
        uncounted(|| {
            if self.state().stages.is_empty() {
                self.await_devices();
            }
            let mut running = self.state();
            running.settle_gradients();
            if running.stages.is_empty() {
                // A loop of one's own may end in the middle of what it calls a step.
                running.write_record(&self.output, &self.settings);
                running.sync_record(&self.output);
            }
            let rate = Rate::now();
            let ended = running.ended.unwrap_or_else(|| running.clock.now());
            let run = self.output.run();
            let mut notes = running.notes(&self.settings, self.sees_ops.load(Ordering::Relaxed));
            notes.extend(clock::notes(running.started, ended));
            let header = ReportHeaderParts {
                schema_version: SCHEMA_VERSION,
                units: Units::default(),
                stage: self.output.stage(),
                rank: run.rank,
                world_size: run.world_size,
                started_at: rate.wall_time(running.started),
                wall_seconds: rate.seconds_between(running.started, ended),
                build: crate::build_settings::of_program(),
                program: mlprof_events::program_name(),
                machine: crate::machine::of_process(),
                frameworks: mlprof_events::frameworks(),
                startup: None,
                overhead: Overhead::default(),
                settings: self.settings.told(),
                notes,
            }
            .build();
            running.report(header, self.settings.watches)
        })
    }

    /// Returns why the training should end.
    fn reason_to_stop(&self) -> Option<String> {
        let first = self.settings.stops.then(|| {
            let mut running = self.state();
            running.settle_gradients();
            running.first_not_finite.clone()
        });
        first.flatten().map(|first| first.what_is_not_finite())
    }

    /// Begins a rerun of the batch if a number in it is the first that is not finite.
    fn begin_rerun(&self) -> bool {
        uncounted(|| {
            let mut running = self.state();
            running.settle_gradients();
            let first = running.first_not_finite.as_ref();
            let is_of_this_step = first.is_some_and(|first| first.step == running.step);
            // A recorded step has shown all already.
            let is_wanted = self.settings.runs_again()
                && is_of_this_step
                && running.rerun.is_none()
                && !running.is_paused()
                && self.wish(TensorRole::Output) == FINITE;
            if is_wanted {
                running.begin_rerun();
                self.knows_batch.store(false, Ordering::Relaxed);
                let is_other = self.look(STATISTICS, STATISTICS);
                drop(running);
                Self::tell_hooks(is_other);
            }
            is_wanted
        })
    }

    /// Ends the rerun of the batch, which may have failed.
    fn end_rerun(&self, failure: Option<&str>) {
        uncounted(|| {
            let mut running = self.state();
            if !running.is_rerun {
                return;
            }
            running.end_rerun(failure);
            running.write_record(&self.output, &self.settings);
            let of_ops = if self.settings.looks_at_ops { FINITE } else { NOTHING };
            let is_other = self.look(FINITE, of_ops);
            drop(running);
            Self::tell_hooks(is_other);
        });
    }

    /// Ends a step and begins the next one, outside of pauses.
    fn next_step(&self) {
        uncounted(|| {
            self.await_devices();
            let mut running = self.state();
            if running.is_paused() {
                return;
            }
            self.end_step(&mut running);
            running.step += 1;
            self.look_anew(running);
        });
    }

    /// Changes the number of pauses that are inside one another.
    fn change_pauses(&self, change: impl FnOnce(usize) -> usize) {
        uncounted(|| {
            let mut running = self.state();
            running.pauses = change(running.pauses);
            self.look_anew(running);
        });
    }
}

impl Profiler for NumericsProfiler {
    fn start(&self, action: Action) {
        uncounted(|| Modules::start(action));
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        Modules::stop(action);
        Ok(())
    }

    fn start_op(&self, op: &OpStart<'_>) {
        uncounted(|| self.modules.start_op(op));
    }

    /// Ops and modules are wanted where outputs of ops are: to know which module these are in.
    fn interest(&self) -> Interest {
        if self.wish(TensorRole::OpOutput) == NOTHING {
            return Interest::NUMERICS;
        }
        Interest::NUMERICS | Interest::OP_OUTPUTS | Interest::OPS | Interest::ACTIONS
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::Tensor(told) => uncounted(|| self.observe_tensor(told)),
            Observation::Note(note) | Observation::StageNote(note) => {
                uncounted(|| self.state().note(note))
            }
            Observation::StepEnd => self.next_step(),
            Observation::StepsPaused => self.change_pauses(|pauses| pauses + 1),
            Observation::StepsResumed => self.change_pauses(|pauses| pauses.saturating_sub(1)),
            Observation::Control(control) => {
                if control.can_rerun() && self.begin_rerun() {
                    control.rerun_batch();
                }
                if let Some(reason) = self.reason_to_stop() {
                    control.stop(reason);
                }
            }
            Observation::RerunEnd(failure) => self.end_rerun(*failure),
            _ => {}
        }
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        uncounted(|| {
            self.output.setup(stage, run);
            let mut running = self.state();
            running.begin(stage);
            self.look_anew(running);
        });
    }

    fn teardown(&self, stage: Option<Stage>) {
        uncounted(|| {
            self.await_devices();
            let mut running = self.state();
            if running.stages.len() == 1 && running.has_rows() {
                self.end_step(&mut running);
            }
            running.end(stage);
            self.look_anew(running);
            self.output.teardown(stage);
        });
    }

    fn summary(&self) -> String {
        numerics::paint(&self.snapshot())
    }

    fn report(&self) -> Option<Report> {
        Some(Report::Numerics(self.snapshot()))
    }

    fn output(&self) -> Option<&Output> {
        Some(&self.output)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for NumericsProfiler {
    fn render(&self) -> RenderedReport {
        let report = self.snapshot();
        let text = numerics::paint(&report);
        RenderedReport::new(text, Some(Report::Numerics(report)))
    }
}
