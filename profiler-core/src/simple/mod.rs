//! The Simple profiler: number and duration of the calls of every action.

mod counters;
mod distribution;
mod durations;
mod histogram;
mod median;
mod row;
mod summarize;
mod table;
mod waiting;

pub use self::counters::{SimpleCountersProfiler, SimpleIoProfiler};
#[doc(hidden)]
pub use self::distribution::Distribution;
#[doc(hidden)]
pub use self::durations::ActionDurations;
use self::table::SimpleTable;
use crate::device_time::DeviceTime;
use crate::hook;
use crate::output::RenderedReport;
use crate::profiler::{Inner, Internals};
use crate::recorder::Recorder;
use crate::report::simple::detailed;
use crate::report::simple::lightning;
use crate::report::{Report, Setting, SimpleReport};
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
    /// Set when device time is measured.
    devices: Option<DeviceTime>,
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
            devices: None,
        }
    }

    crate::output_settings::output_settings!("simple", "");

    /// Selects Lightning's short table (`extended=False`), which has only mean and total and is
    /// sorted by mean. The last call of this method or [`detailed`](Self::detailed) takes effect.
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
        self.devices = measures.then(|| DeviceTime::new(self.recorder.device_time_sink()));
        self
    }

    /// Returns the numbers recorded so far. Other threads may continue to record meanwhile. A row
    /// then includes all calls that it counts, and possibly the time of one more. The method waits
    /// for pending device regions. On mlprof's own threads, which answer queries and end a
    /// training, the wait is limited to 4 s.
    pub fn snapshot(&self) -> SimpleReport {
        let is_whole = hook::deliver_regions();
        let mut report = summarize::summarize(self.recorder.collect(), &self.output.run());
        report.header.settings = settings(false, false);
        self.note_devices(&mut report);
        report.header.notes.extend((!is_whole).then(|| hook::STILL_AT_WORK.to_owned()));
        report
    }
}

impl SimpleProfiler {
    /// Adds the settings and notes of the device measurement to the report, if device time is
    /// measured.
    fn note_devices(&self, report: &mut SimpleReport) {
        if let Some(devices) = &self.devices {
            report.header.settings.push(Setting::recorded("device time", true));
            report.header.notes.extend(devices.notes());
        }
    }

    #[cold]
    #[inline(never)]
    fn stop_with_devices(&self, action: Action, devices: &DeviceTime) -> Result<(), NeverStarted> {
        let stopped = self.recorder.stop(action);
        devices.close(action);
        stopped
    }
}

/// Returns the report's settings: the optional measurements and their state.
fn settings(io: bool, cpu: bool) -> Vec<Setting> {
    vec![Setting::recorded("CPU time", cpu), Setting::recorded("bytes read and written", io)]
}

impl Profiler for SimpleProfiler {
    fn start(&self, action: Action) {
        if let Some(devices) = &self.devices {
            devices.open(action);
        }
        self.recorder.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        if let Some(devices) = &self.devices {
            return self.stop_with_devices(action, devices);
        }
        self.recorder.stop(action)
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
        if let Some(devices) = &self.devices {
            devices.reset();
        }
    }

    fn teardown(&self, stage: Option<Stage>) {
        hook::deliver_regions();
        self.recorder.end(stage);
        self.output.teardown(stage);
    }

    fn summary(&self) -> String {
        self.layout.paint(&self.snapshot())
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
        self.layout.render(self.snapshot())
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
