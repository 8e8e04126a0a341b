//! The numerics profiler: the numbers in what modules return, in losses, gradients and parameters, and the first of them that is
//! not finite.

mod readers;
mod record;
mod reduced;
mod running;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use self::readers::{CopyReader, FiniteReader};
use self::running::Running;
use crate::output::RenderedReport;
use crate::report::numerics::{self, NumericsReport, RecordedTensor, StatisticsReader};
use crate::report::{Overhead, Report, ReportHeader, SCHEMA_VERSION, Setting, Units};
use crate::{Action, Interest, NeverStarted, Output, Profiler, RunContext, Stage};
use profiler_events::clock::Rate;
use profiler_events::forking::{Mutex, MutexGuard};
use profiler_events::{Observation, ObservedTensor, TensorRole, ThreadName, uncounted};

/// Looks at the numbers of a training: in what modules return, in the loss, in gradients, parameters and their updates.
///
/// Of some steps (every [tenth](Self::every)) it records smallest, largest, mean, standard deviation, norms, zeros, subnormals, NaN
/// and infinities of each tensor. In all steps it [looks](Self::watch) whether every number is finite, and names the first tensor of
/// which some are not, as it happens: on standard error, and in its report. Its report says besides what
/// [comes before that](numerics::TroubleKind): gradients that vanish or explode, activations that are dead, updates that are too
/// large or too small, and 16-bit numbers that lose digits.
///
/// *Where tensors come from*: all plugins tell of modules that are `.profiled(…)`, and their optimizers for the trainer, or burn's
/// own trainer with a profiler, of losses, gradients and parameters.
///
/// *What it reads*: tensors in the host's memory, as they are told of. burn's tensors on other devices are reduced where they are,
/// and what came of that is read when the step ends: so nothing waits in its middle, and what is not finite is known an optimizer's
/// step late. Tensors of candle and tch on other devices are not read; the report says how many there were.
///
/// *The record*: with a [directory](Self::dirpath) each recorded step is written when it ends, as lines of JSON in
/// `{stage}-{filename}[-{rank}].numerics.jsonl`: see [`RecordedTensor`].
///
/// *Cost*: reading each number once, some 0.5 ns, in each step; in recorded steps some 2 ns, and 8 bytes of memory for each
/// number of a parameter until the step ends. *Stages*: what is inside of another stage, as a validation in a fit, is not looked at.
///
/// ```
/// use profiler_core::{NumericsProfiler, Profiler};
///
/// let profiler = NumericsProfiler::new().every(100).stop_on_nan(true);
/// // … a training with it …
/// # profiler.step();
/// let report = profiler.snapshot();
/// assert_eq!(report.first_not_finite, None);
/// ```
pub struct NumericsProfiler {
    every: u64,
    watches: bool,
    stops: bool,
    output: Output,
    state: Mutex<Running>,
    /// What the running step wants, so that tensors are read outside of the lock.
    wish: AtomicU64,
}

const NOTHING: u64 = 0;
const FINITE: u64 = 1;
const STATISTICS: u64 = 2;

impl Default for NumericsProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl NumericsProfiler {
    /// Records every tenth step, beginning with the first, and watches all of them.
    pub fn new() -> Self {
        let profiler = Self {
            every: 10,
            watches: true,
            stops: false,
            output: Output::new().of_kind("numerics"),
            state: Mutex::new(Running::default()),
            wish: AtomicU64::new(NOTHING),
        };
        profiler.begin_step(&profiler.state());
        profiler
    }

    crate::output_settings::output_settings!("numerics", ", and the record of numbers");

    /// Of every so many steps one is recorded, beginning with the first; with 1 all are, with 0 none but those after something was
    /// not finite.
    #[must_use]
    pub fn every(mut self, steps: u64) -> Self {
        self.every = steps;
        self.begin_step(&self.state());
        self
    }

    /// Whether every tensor of every step is looked at for NaN and infinity. It is, unless this says `false`: then only those of
    /// recorded steps.
    #[must_use]
    pub fn watch(mut self, watches: bool) -> Self {
        self.watches = watches;
        self.begin_step(&self.state());
        self
    }

    /// Whether the training is to end when a number is not finite, before it gets into the parameters if it was seen by then. This
    /// project's trainer asks [`reason_to_stop`](Profiler::reason_to_stop); a loop of one's own may.
    #[must_use]
    pub fn stop_on_nan(mut self, stops: bool) -> Self {
        self.stops = stops;
        self
    }

    fn state(&self) -> MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_step(&self, running: &Running) {
        let is_due = self.every > 0 && running.step.is_multiple_of(self.every);
        let wish = match () {
            () if running.is_paused() => NOTHING,
            () if is_due || running.is_recorded_next => STATISTICS,
            () if self.watches => FINITE,
            () => NOTHING,
        };
        self.wish.store(wish, Ordering::Relaxed);
    }

    /// What devices make of tensors is read, unless it is a validation's step.
    fn await_devices(&self) {
        if !self.state().is_paused() {
            self.read_reduced(self.wish.load(Ordering::Relaxed) == STATISTICS);
        }
    }

    fn end_step(&self, running: &mut Running) {
        if self.wish.load(Ordering::Relaxed) == STATISTICS {
            running.recorded_steps += 1;
            running.is_recorded_next = false;
            running.write_record(&self.output);
        }
        running.calls.clear();
        running.before_step.clear();
    }

    fn observe_tensor(&self, told: &ObservedTensor<'_>) {
        let wish = self.wish.load(Ordering::Relaxed);
        if wish == NOTHING || (wish == FINITE && told.role == TensorRole::Parameter) {
            return;
        }
        if wish == FINITE {
            let mut reader = FiniteReader::default();
            if !told.tensor.read(&mut reader) {
                return self.reduce(told);
            }
            if reader.is_finite() {
                return;
            }
        }
        self.record(told);
    }

    /// Of a recorded step, or a tensor that is not finite.
    fn record(&self, told: &ObservedTensor<'_>) {
        let mut shape = told.tensor.shape();
        let mut reader = StatisticsReader::of_shape(&shape);
        let mut copy = CopyReader::default();
        let is_read = match told.role {
            TensorRole::Update | TensorRole::Parameter => told.tensor.read(&mut copy),
            _ => told.tensor.read(&mut reader),
        };
        if !is_read {
            return self.reduce(told);
        }
        let input = told.input.and_then(|input| {
            let mut reader = StatisticsReader::of_shape(&input.shape());
            input.read(&mut reader).then(|| reader.statistics())
        });
        let mut running = self.state();
        if told.role == TensorRole::Parameter {
            copy.read_by(&mut reader);
            running.before_step.insert(told.name.to_owned(), copy.numbers());
        } else if told.role == TensorRole::Update {
            // What the parameter was, is not known of a step that is not recorded.
            let before = running.before_step.remove(told.name).unwrap_or_default();
            copy.less(&before).read_by(&mut reader);
        }
        if told.role == TensorRole::Loss {
            shape.clear();
        }
        let tensor = RecordedTensor {
            step: running.step,
            role: told.role,
            name: told.name.to_owned(),
            call: running.call(told.role, told.name),
            thread: ThreadName::of_this_thread().name,
            element_type: told.tensor.element_type().to_owned(),
            shape,
            statistics: reader.statistics(),
            input,
            sample: reader.sample(),
        };
        if !tensor.statistics.is_finite() {
            running.see_not_finite(&tensor);
        }
        if self.wish.load(Ordering::Relaxed) == STATISTICS {
            running.see(tensor);
        }
    }

    /// The numbers so far, of the stage that runs or ended last.
    pub fn snapshot(&self) -> NumericsReport {
        uncounted(|| {
            if self.state().stages.is_empty() {
                self.await_devices();
            }
            let mut running = self.state();
            if running.stages.is_empty() {
                // A loop of one's own may end in the middle of what it calls a step.
                running.write_record(&self.output);
            }
            let rate = Rate::now();
            let ended = running.ended.unwrap_or_else(|| running.clock.now());
            let run = self.output.run();
            let header = ReportHeader {
                schema_version: SCHEMA_VERSION,
                units: Units::default(),
                stage: self.output.stage(),
                rank: run.rank,
                world_size: run.world_size,
                started_at: rate.wall_time(running.started),
                wall_seconds: rate.seconds(ended.saturating_sub(running.started)),
                build: crate::build_settings::of_program(),
                program: crate::trace::internals::program_name(),
                machine: crate::machine::of_process(),
                frameworks: profiler_events::frameworks(),
                startup: None,
                overhead: Overhead::default(),
                settings: self.settings(),
                notes: running.notes(),
            };
            running.report(header, self.watches)
        })
    }

    fn settings(&self) -> Vec<Setting> {
        vec![
            Setting::new("every", self.every.to_string()),
            Setting::new("watch", self.watches.to_string()),
            Setting::new("stop_on_nan", self.stops.to_string()),
        ]
    }
}

impl Profiler for NumericsProfiler {
    fn start(&self, _action: Action) {}

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn interest(&self) -> Interest {
        Interest::NUMERICS
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::Tensor(told) => uncounted(|| self.observe_tensor(told)),
            Observation::Note(note) => uncounted(|| self.state().note(note)),
            _ => {}
        }
    }

    fn reason_to_stop(&self) -> Option<String> {
        let first = self.stops.then(|| self.state().first_not_finite.clone()).flatten();
        first.map(|first| first.what_is_not_finite())
    }

    fn step(&self) {
        uncounted(|| {
            self.await_devices();
            let mut running = self.state();
            if running.is_paused() {
                return;
            }
            self.end_step(&mut running);
            running.step += 1;
            self.begin_step(&running);
        });
    }

    fn pause(&self) {
        let mut running = self.state();
        running.pauses += 1;
        self.begin_step(&running);
    }

    fn resume(&self) {
        let mut running = self.state();
        running.pauses = running.pauses.saturating_sub(1);
        self.begin_step(&running);
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        uncounted(|| {
            self.output.setup(stage, run);
            let mut running = self.state();
            running.begin(stage);
            self.begin_step(&running);
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
            self.begin_step(&running);
            drop(running);
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

    fn render(&self) -> RenderedReport {
        let report = self.snapshot();
        let text = numerics::paint(&report);
        RenderedReport::new(text, Some(Report::Numerics(report)))
    }
}
