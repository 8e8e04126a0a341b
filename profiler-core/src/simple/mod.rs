//! The Simple profiler: how often every action ran, and how long.

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

/// Counts and times actions; the counterpart of Lightning's `SimpleProfiler`, selected by
/// `"simple"`.
///
/// The report is Lightning's table, byte for byte, with a row of its own for the optimizer's
/// update. Below it stand the three largest self times, and how much of training was [waiting for
/// data](crate::report::simple::DataWaiting), if an action says so. The console leaves out the rows
/// below 0.1 % of the wall time and counts them; [`all_rows(true)`](Self::all_rows) shows them.
/// Unlike Lightning's, this profiler lets actions nest and recurse, keeps no list of durations,
/// starts every stage from zero, shows what is still running, and may be used by any number of
/// threads at once.
///
/// *Cost*: hardly more than two readings of the time-stamp counter and a push to a buffer (up to 1.5
/// times that where others use the same core), for each start and stop together; no locks and no
/// allocation after an action's first call on a thread. One of ten thousand names that are used in turn
/// costs a quarter more than the only one, as long as the processor's caches hold a line of each; so does
/// a scope with ten thousand others around it. *Memory*: about 400 bytes per action and thread, however
/// many calls there are, and 80 more for each power of two that durations fall into far from most calls,
/// in pages that each thread maps; 32 bytes per scope that is open.
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
    /// Where device time is measured.
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

    /// All rows for files, the longer ones for the console.
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
    /// Lightning's extended table, on the console.
    pub fn new() -> Self {
        Self::with_recorder(Recorder::new())
    }

    /// One that start-up has nothing to do with: of a calibration, or beside the program's own.
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

    /// Lightning's short table, its `extended=False`: mean and total only, sorted by mean. Of this
    /// layout and the [detailed](Self::detailed) one, the last one that was chosen holds.
    #[must_use]
    pub fn short(mut self) -> Self {
        self.layout = Layout::Lightning { extended: false };
        self
    }

    /// The richer layout: self time beside total time, the first call apart from the rest, shortest,
    /// median, 95th percentile and longest, rows per thread, and what measuring cost.
    #[must_use]
    pub fn detailed(mut self) -> Self {
        self.layout = Layout::Detailed;
        self
    }

    /// Whether the time that devices take for every action is measured beside the host's, by the devices' own
    /// clocks; not by default. Rows of actions then have a column or a table `Device`, and in JSON
    /// [`device`](crate::report::simple::ActionStatistics::device).
    ///
    /// *What is measured*: the span of the device's clock from the first work that a call hands to it to
    /// the last, actions inside and pauses included. Calls that hand over nothing have none. Functions, spans
    /// and modules are not measured: fused blocks would end at each of them.
    ///
    /// *Where*: on all CubeCL devices of burn (wgpu, CUDA, ROCm, Metal; feature `cubecl` of mlprof-burn), and on CUDA
    /// with candle and tch (feature `cuda` of their plugins). A device without timestamps is not measured,
    /// since that would take a wait at each end of an action; the report has a note that says so.
    ///
    /// *Cost*: nothing while it is off but one comparison. Nobody waits for the device: times are read
    /// when the report is made. On burn's devices its queue of ops is run empty at both ends of every action,
    /// so that no fused block reaches over them. What it cost the host is in a note of the report. At
    /// most [`max_pending_regions`](crate::hook::max_pending_regions) calls are under way; further ones are
    /// counted in a note.
    #[must_use]
    pub fn measure_devices(mut self, measures: bool) -> Self {
        self.devices = measures.then(|| DeviceTime::new(self.recorder.device_time_sink()));
        self
    }

    /// The numbers so far. Other threads may go on recording meanwhile: a row then has all calls
    /// that it counts, and possibly the time of one more. Regions of a device that are under way are
    /// waited for; by threads of mlprof's own, which answer and which end a training, for 4 s at most.
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
    /// Says what of device time was measured, and what not, where it is measured.
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

/// What is measured of actions besides their times.
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
