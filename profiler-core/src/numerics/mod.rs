//! The numerics profiler. It records values of module and op outputs, losses, gradients and
//! parameters, and finds the first non-finite tensor.

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

/// Records the numeric values of a training: module outputs, the loss, gradients, parameters and
/// their updates.
///
/// In some steps (every [tenth](Self::every)), it records statistics of each tensor: minimum,
/// maximum, mean, standard deviation, norms, and the number of zeros, subnormals, NaNs and
/// infinities. In all steps, it [checks](Self::watch) that every value is finite. It names the
/// first non-finite tensor on standard error at once, and in its report. The report also lists
/// [early signs of trouble](numerics::TroubleKind):
///
/// - vanishing or exploding gradients
/// - dead activations
/// - updates that are too large or too small
/// - 16-bit values that lose precision
///
/// *Sources of tensors*: all plugins report modules wrapped with `.profile_layer(…)`. Losses,
/// gradients and parameters come from the plugins' optimizers for the trainer, or from burn's own
/// trainer with a profiler.
///
/// *Ops*: outputs of ops, forward and backward, are checked [on request](Self::ops). They are
/// always checked in the step after a non-finite value and in the rerun of a batch, so that the
/// report also names the op. Op outputs are available for tch. With `mlprof run --ops …
/// --numerics`, they are also available for candle and for burn's flex device.
///
/// *Reading*: tensors in host memory are read when they are reported. Tensors on other devices are
/// reduced there, and the results are read at the end of the step. In steps without recording, the
/// reduction only yields two counts. The step therefore never waits for a device, and a non-finite
/// value is detected one optimizer step late. Op outputs on other devices are not read, and the
/// report gives their number.
///
/// *Record*: with a [directory](Self::dirpath), each recorded step is written at its end, as JSON
/// lines in `{stage}-{filename}[-{rank}].numerics.jsonl`. See
/// [`RecordedTensor`](numerics::RecordedTensor) for the lines; the first line describes the run.
/// Each recorded step contains its batch with a hash. The batch consists of the tensors that the
/// program reported with `record_batch` of the plugins. Otherwise it is the input of the step's
/// first module.
///
/// *Cost*: reading each value once takes about 0.5 ns in each step, and 1 to 2 ns in recorded
/// steps. Each parameter value needs 8 bytes of memory until the recorded step ends. *Stages*: a
/// stage inside another one, such as a validation in a fit, is not recorded.
///
/// ```
/// use mlprof_core::{NumericsProfiler, ProfilerExt};
///
/// let profiler = NumericsProfiler::new().every(100).stop_on_nan(true);
/// // … train with this profiler …
/// # profiler.step();
/// let report = profiler.snapshot();
/// assert_eq!(report.first_not_finite, None);
/// ```
pub struct NumericsProfiler {
    settings: Settings,
    output: Output,
    state: Mutex<Running>,
    modules: Modules,
    /// Set when an op has reported its output.
    sees_ops: AtomicBool,
    /// Mode of the running step. It is atomic, so that tensors are read outside the lock.
    wish: AtomicU64,
    /// Set when the batch of this step has been seen.
    knows_batch: AtomicBool,
}

/// Modes for reading tensors: not at all, only a check for non-finite values, or full statistics.
/// The bits from `OF_OPS` on hold the mode for tensors of ops.
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
    /// Creates a profiler that records every tenth step, beginning with the first, and watches all
    /// steps.
    pub fn new() -> Self {
        let profiler = Self {
            settings: Settings::default(),
            output: Output::new().of_kind("numerics"),
            state: Mutex::new(Running::new()),
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

    /// Sets the mode of the step that begins. Returns `true` if hooks must be notified of the
    /// change.
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

    /// Sets the modes for tensors and for tensors of ops. Returns `true` if hooks must be notified
    /// of the change.
    fn look(&self, wish: u64, of_ops: u64) -> bool {
        let before = self.wish.swap(wish | of_ops << OF_OPS, Ordering::Relaxed);
        (before >> OF_OPS == NOTHING) != (of_ops == NOTHING)
    }

    /// Begins a step and notifies the hooks.
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

    /// Returns the mode for tensors with this role in the current step.
    fn wish(&self, role: TensorRole) -> u64 {
        let wish = self.wish.load(Ordering::Relaxed);
        if role.is_of_op() { wish >> OF_OPS } else { wish & ((1 << OF_OPS) - 1) }
    }

    /// Reads pending device reductions, except in a step of a validation.
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

    /// Returns the results so far of the current stage, or of the last one that ended.
    pub fn snapshot(&self) -> NumericsReport {
        uncounted(|| {
            if self.state().stages.is_empty() {
                self.await_devices();
            }
            let mut running = self.state();
            running.settle_gradients();
            if running.stages.is_empty() {
                // A hand-written loop may end in the middle of a step.
                running.write_record(&self.output, &self.settings);
                running.sync_record(&self.output);
            }
            let rate = Rate::now();
            let ended = running.ended.unwrap_or_else(|| running.clock.now());
            let run = self.output.run();
            let sees_ops = self.sees_ops.load(Ordering::Relaxed);
            let mut notes = running.notes(&self.settings, sees_ops, self.output.stage());
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

    /// Returns the reason for ending the training, if there is one.
    fn reason_to_stop(&self) -> Option<String> {
        let first = self.settings.stops.then(|| {
            let mut running = self.state();
            running.settle_gradients();
            running.first_not_finite.clone()
        });
        first.flatten().map(|first| first.what_is_not_finite())
    }

    /// Begins a rerun of the batch if it contains the first non-finite value. Returns `true` if it
    /// does.
    fn begin_rerun(&self) -> bool {
        uncounted(|| {
            let mut running = self.state();
            running.settle_gradients();
            let first = running.first_not_finite.as_ref();
            let is_of_this_step = first.is_some_and(|first| first.step == running.step);
            // A recorded step already has all details.
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

    /// Ends a step and begins the next one, except during pauses.
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

    /// Changes the nesting depth of pauses.
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

    /// Returns the wanted events. If op outputs are wanted, ops and modules are too, because they
    /// give the module of each op.
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
