//! The Simple profiler: number and duration of the calls of every action.

mod counters;
mod distribution;
mod durations;
mod histogram;
mod median;
mod optional;
mod row;
mod summarize;
mod table;
mod waiting;

use self::counters::CounterSelection;
#[doc(hidden)]
pub use self::distribution::Distribution;
#[doc(hidden)]
pub use self::durations::ActionDurations;
use self::optional::OptionalMeasurements;
use self::table::SimpleTable;
use crate::hook;
use crate::output::RenderedReport;
use crate::profiler::{Inner, Internals};
use crate::recorder::Recorder;
use crate::recorder::overhead::seconds_per_scope;
use crate::report::simple::detailed;
use crate::report::simple::lightning;
use crate::report::{Report, SimpleReport};
use crate::{Action, Interest, NeverStarted, Observation, Output, Profiler, RunContext, Stage};

/// Counts and times actions. It is the counterpart of Lightning's `SimpleProfiler` and is selected
/// by `"simple"`.
///
/// The report is Lightning's table, byte for byte, plus one row for the optimizer's update. Below
/// the table are the three largest self times. If an action represents data loading, the report
/// also shows the share of training spent [waiting for data](crate::report::simple::DataWaiting).
/// The console omits the rows below 0.1 % of the wall time and prints their number;
/// [`all_rows(true)`](Self::all_rows) shows them.
///
/// There are some differences from Lightning's profiler:
///
/// - Actions may nest and recurse.
/// - Durations are not kept in a list.
/// - Every stage starts from zero.
/// - The report shows actions that are still running.
/// - Any number of threads may use the profiler at once.
///
/// *Cost*: a start and stop take hardly longer than two readings of the time-stamp counter and a
/// push to a buffer. They take up to 1.5 times that if other threads use the same core. After an
/// action's first call on a thread they take no locks and allocate no memory. If ten thousand names
/// are used in turn, each scope costs a quarter more than with one name. This holds as long as the
/// processor's caches hold a line for each name. A scope inside ten thousand others also costs a
/// quarter more.
///
/// *Memory*: about 400 bytes per action and thread, independent of the number of calls. Each power
/// of two with durations far from most others adds 80 bytes, in pages that each thread maps. Each
/// open scope takes 32 bytes.
///
/// ```
/// use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
///
/// let profiler = SimpleProfiler::new();
/// for _batch in profiler.profile_iterable(0..3, "train_dataloader_next") {
///     let _scope = profiler.profile("run_training_batch");
/// }
/// profiler.describe(); // prints the table
/// assert!(profiler.summary().contains("run_training_batch"));
/// ```
pub struct SimpleProfiler {
    recorder: Recorder<SimpleTable>,
    output: Output,
    layout: Layout,
    /// Set when at least one optional measurement is on.
    optional: Option<Box<OptionalMeasurements>>,
}

#[derive(Debug, Clone, Copy)]
enum Layout {
    Lightning { extended: bool },
    Detailed,
}

impl Layout {
    fn paint(self, report: &SimpleReport) -> String {
        match self {
            Self::Lightning { extended } => lightning::paint(report, extended),
            Self::Detailed => detailed::paint(report),
        }
    }

    /// Renders all rows for files, and only the longer ones for the console.
    fn render(self, report: SimpleReport) -> RenderedReport {
        let whole = self.paint(&report);
        let printed = match self {
            Self::Lightning { extended } => lightning::paint_on_console(&report, extended),
            Self::Detailed => detailed::paint_on_console(&report),
        };
        RenderedReport::new(whole, Some(Report::Simple(report))).with_console_text(printed)
    }
}

impl Default for SimpleProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl SimpleProfiler {
    /// Returns a profiler that prints Lightning's extended table on the console.
    pub fn new() -> Self {
        Self::with_recorder(Recorder::new())
    }

    /// Returns a profiler that does not affect start-up, for a calibration or beside the program's
    /// own profiler.
    #[doc(hidden)]
    pub fn aside() -> Self {
        Self::with_recorder(Recorder::aside())
    }

    fn with_recorder(recorder: Recorder<SimpleTable>) -> Self {
        Self {
            recorder,
            output: Output::new().of_kind("simple"),
            layout: Layout::Lightning { extended: true },
            optional: None,
        }
    }

    crate::output_settings::output_settings!("simple", "");
    crate::output_settings::verdict_setting!();

    /// Selects Lightning's short table (`extended=False`), which has only mean and total and is
    /// sorted by mean. The last call of this method or [`detailed`](Self::detailed) takes effect.
    /// [Counters](Self::measure_io) are shown only in the detailed layout, so it replaces the short
    /// table if they are measured.
    #[must_use]
    pub fn short(mut self) -> Self {
        self.layout = Layout::Lightning { extended: false };
        self
    }

    /// Selects the detailed layout. It shows self time next to total time, and the first call
    /// separately. It also shows shortest, median, 95th percentile and longest duration, rows per
    /// thread, and the measuring overhead.
    #[must_use]
    pub fn detailed(mut self) -> Self {
        self.layout = Layout::Detailed;
        self
    }

    /// Enables or disables the measurement of device time per action, by the devices' own clocks.
    /// It is off by default. Rows of actions then have a column or a table `Device`, and in JSON
    /// [`device`](crate::report::simple::ActionStatistics::device).
    ///
    /// *Measured values*: the span on the device's clock from the first to the last work that a
    /// call submits. It includes nested actions and idle gaps. Calls that submit no work have no
    /// device time. Functions, spans and modules are not measured, because fused blocks would end
    /// at each of them.
    ///
    /// *Devices*: all CubeCL devices of burn (wgpu, CUDA, ROCm, Metal; feature `cubecl` of
    /// mlprof-burn), and CUDA with candle and tch (feature `cuda` of their plugins). A device
    /// without timestamps is not measured, because that would require a wait at each end of an
    /// action. A note in the report names such devices.
    ///
    /// *Cost*: one comparison while it is off. No thread waits for the device, because times are
    /// read when the report is made. On burn's devices, the queue of ops is flushed at both ends of
    /// every action, so that no fused block crosses them. A note in the report gives the cost on
    /// the host. At most [`max_pending_regions`](crate::hook::max_pending_regions) calls are
    /// pending at a time, and further ones are counted in a note.
    #[must_use]
    pub fn measure_devices(mut self, measures: bool) -> Self {
        if measures || self.optional.is_some() {
            let sink = self.recorder.device_time_sink();
            self.optional.get_or_insert_default().measure_devices(measures.then_some(sink));
        }
        self
    }

    /// Measures also the bytes that every action reads and writes, and selects the
    /// [detailed](Self::detailed) layout with one more table. In JSON and in
    /// [`snapshot`](Self::snapshot) every row has its
    /// [`io`](crate::report::simple::ActionStatistics::io). Data recorded before this call has no
    /// byte counts.
    ///
    /// *Counted values*: see [`IoStatistics`](crate::report::simple::IoStatistics). The counters
    /// are those of each Linux thread (`/proc/thread-self/io`). Work that an action hands to other
    /// threads or to an asynchronous interface is therefore not counted for the action. A file read
    /// through a memory map appears as bytes from storage if it was not in the page cache, and
    /// never as bytes read. The profiler subtracts the bytes of its own readings.
    ///
    /// *Cost*: 2 to 6 µs for start and stop together, a hundred times the usual cost of a scope.
    /// The cost is not part of the action's own time but of the time of the enclosing action. It
    /// suits actions of about 100 µs and more. Each thread keeps one file open until it ends.
    ///
    /// *Failure*: counters are unavailable on systems other than Linux, without `/proc`, with a
    /// kernel that does not count (`TASK_IO_ACCOUNTING`), or when no more files can be opened. Rows
    /// then lack the unknown values, and a note in the report gives the reason.
    #[must_use]
    pub fn measure_io(mut self) -> Self {
        self.optional.get_or_insert_default().measure_io();
        self
    }

    /// Measures also the CPU time of every action, which separates working from waiting, and
    /// selects the [detailed](Self::detailed) layout with one more table. In JSON and in
    /// [`snapshot`](Self::snapshot) every row has its
    /// [`cpu`](crate::report::simple::ActionStatistics::cpu). Data recorded before this call has no
    /// CPU times.
    ///
    /// *Counted values*: see [`CpuStatistics`](crate::report::simple::CpuStatistics). These are the
    /// CPU times of the thread and of the whole process (`CLOCK_THREAD_CPUTIME_ID`,
    /// `CLOCK_PROCESS_CPUTIME_ID`) and the thread's context switches (`getrusage`). During wall
    /// time that is not CPU time of its thread, the thread waited for a device, a file, a lock,
    /// another thread or a core. The process's CPU time shows if other threads worked meanwhile. It
    /// is one number for all threads, so overlapping actions include each other's CPU time.
    ///
    /// *Cost*: six system calls, about 1.7 µs for start and stop together, plus about 20 ns for
    /// each thread of the process. About 0.4 µs of it is part of the action's own CPU time. An
    /// action's first call takes 2 µs, and the first call of a thread 10 µs. CPU times suit actions
    /// of about 20 µs and more.
    ///
    /// *Failure*: as with [`measure_io`](Self::measure_io), unavailable counters are missing, and a
    /// note gives the reason.
    ///
    /// ```
    /// use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
    ///
    /// let profiler = SimpleProfiler::new().measure_cpu().measure_io();
    /// {
    ///     let _scope = profiler.profile("read_settings");
    ///     let _ = std::fs::read("Cargo.toml");
    /// }
    /// profiler.describe();
    /// # let report = profiler.snapshot();
    /// # let row = report.actions.iter().find(|row| row.action == "read_settings").expect("a row");
    /// # assert!(row.waiting_seconds().is_some() || !cfg!(target_os = "linux"));
    /// ```
    #[must_use]
    pub fn measure_cpu(mut self) -> Self {
        self.optional.get_or_insert_default().measure_cpu();
        self
    }

    /// Returns the numbers recorded so far. Other threads may continue to record meanwhile. A row
    /// then includes all calls that it counts, and possibly the time of one more. The method waits
    /// for pending device regions. On mlprof's own threads, which answer queries and end a
    /// training, the wait is limited to 4 s.
    pub fn snapshot(&self) -> SimpleReport {
        let is_whole = hook::deliver_regions();
        let scope = seconds_per_scope(self.counters(), || Self::aside().with_counters_of(self));
        let mut report = summarize::summarize(self.recorder.collect(), &self.output.run(), scope);
        OptionalMeasurements::add_to(self.optional.as_deref(), &mut report);
        report.header.notes.extend((!is_whole).then(|| hook::STILL_AT_WORK.to_owned()));
        report
    }
}

impl SimpleProfiler {
    fn counters(&self) -> CounterSelection {
        self.optional.as_deref().map_or_else(CounterSelection::default, |it| it.counters())
    }

    /// Measures the same counters as another profiler.
    fn with_counters_of(self, other: &Self) -> Self {
        let CounterSelection { io, cpu } = other.counters();
        let measuring = if io { self.measure_io() } else { self };
        if cpu { measuring.measure_cpu() } else { measuring }
    }

    /// Returns the layout: counters are shown only in the detailed one.
    fn shown_layout(&self) -> Layout {
        if self.counters() == CounterSelection::default() { self.layout } else { Layout::Detailed }
    }

    #[cold]
    #[inline(never)]
    fn start_with(&self, optional: &OptionalMeasurements, action: Action) {
        optional.start(action);
        self.recorder.start(action);
    }

    #[cold]
    #[inline(never)]
    fn stop_with(
        &self,
        optional: &OptionalMeasurements,
        action: Action,
    ) -> Result<(), NeverStarted> {
        let stopped = self.recorder.stop(action);
        optional.stop(action);
        stopped
    }
}

impl Profiler for SimpleProfiler {
    fn start(&self, action: Action) {
        match &self.optional {
            None => self.recorder.start(action),
            Some(optional) => self.start_with(optional, action),
        }
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        match &self.optional {
            None => self.recorder.stop(action),
            Some(optional) => self.stop_with(optional, action),
        }
    }

    fn interest(&self) -> Interest {
        Interest::ACTIONS.measurable()
    }

    fn observe(&self, observation: &Observation<'_>) {
        self.recorder.observe_with_steps(observation);
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        self.output.setup(stage, run);
        self.recorder.begin(stage);
        if let Some(optional) = &self.optional {
            optional.begin(stage);
        }
    }

    fn teardown(&self, stage: Option<Stage>) {
        hook::deliver_regions();
        self.recorder.end(stage);
        self.output.teardown(stage);
        if let Some(optional) = &self.optional {
            optional.end(stage);
        }
    }

    fn summary(&self) -> String {
        self.shown_layout().paint(&self.snapshot())
    }

    fn report(&self) -> Option<Report> {
        Some(Report::Simple(self.snapshot()))
    }

    fn output(&self) -> Option<&Output> {
        Some(&self.output)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for SimpleProfiler {
    fn is_open(&self, action: Action) -> bool {
        self.recorder.is_open(action)
    }

    fn render(&self) -> RenderedReport {
        self.shown_layout().render(self.snapshot())
    }
}

#[cfg(all(test, not(loom)))]
mod console_tests;
#[cfg(all(test, not(loom)))]
mod nesting_tests;
#[cfg(all(test, not(loom)))]
mod step_tests;
#[cfg(all(test, not(loom)))]
mod tests;
