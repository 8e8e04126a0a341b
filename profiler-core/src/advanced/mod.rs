//! The Advanced profiler: functions that contribute to the time of each action.

mod missing;
#[cfg(feature = "sampling")]
mod sampled;
mod snapshot;
mod summarize;
mod tree;

use self::tree::CallTree;
use crate::device_time::DeviceTime;
use crate::hook;
use crate::output::RenderedReport;
use crate::profiler::{Inner, Internals};
use crate::recorder::Recorder;
pub use crate::report::LineCountRestriction;
use crate::report::advanced::prof;
use crate::report::advanced::pstats;
use crate::report::{AdvancedReport, Report, Setting};
use crate::{Action, Interest, NeverStarted, Observation, Output, Profiler, RunContext, Stage};

/// Records an exact call tree per thread of all instrumented code: actions, functions with
/// `#[profiled]`, and `tracing` spans. It is the counterpart of Lightning's `AdvancedProfiler` and
/// is selected by `"advanced"`.
///
/// The report has one table per action in the form of Python's `pstats`, with all calls below the
/// action. Unlike in Lightning's profiler, an outer action keeps its data when an inner one starts,
/// and all threads are included.
///
/// *Cost*: start and stop together take about 1.35 times as long as two readings of the time-stamp
/// counter and a push to a buffer. This holds at any depth, and for functions with eight or ten
/// thousand callees, except for misses in the processor's caches.
///
/// *Memory*: about 200 bytes per node of a thread's call tree. The number of nodes depends on the
/// program's code and not on the number of calls. A thread has at most 65,536 nodes; further calls
/// are counted together and reported. The tables of the report have about 200,000 rows at most. If
/// deeply nested actions would need more, the tables of outer actions end some levels further in,
/// and a note explains this.
///
/// ```
/// use mlprof_core::{AdvancedProfiler, Profiler, ProfilerExt};
///
/// let profiler = AdvancedProfiler::new();
/// {
///     let _step = profiler.profile("training_step");
///     let _forward = profiler.profile("forward");
/// }
/// assert!(profiler.summary().contains("Profile stats for: training_step"));
/// ```
pub struct AdvancedProfiler {
    recorder: Recorder<CallTree>,
    output: Output,
    line_count_restriction: LineCountRestriction,
    dump_stats: bool,
    #[cfg(feature = "sampling")]
    sampling: Option<sampled::Sampling>,
    /// Set when device time is measured.
    devices: Option<DeviceTime>,
}

impl Default for AdvancedProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl AdvancedProfiler {
    /// Returns a profiler that prints all lines on the console and writes no `.prof` files.
    pub fn new() -> Self {
        Self::with_recorder(Recorder::new())
    }

    /// Returns a profiler that does not affect start-up.
    fn aside() -> Self {
        Self::with_recorder(Recorder::aside())
    }

    fn with_recorder(recorder: Recorder<CallTree>) -> Self {
        Self {
            recorder,
            output: Output::new().of_kind("advanced"),
            line_count_restriction: LineCountRestriction::default(),
            dump_stats: false,
            #[cfg(feature = "sampling")]
            sampling: None,
            devices: None,
        }
    }

    crate::output_settings::output_settings!("advanced", ", and `.prof` files in any case");
    crate::output_settings::verdict_setting!();

    /// Limits every table to its first lines.
    #[must_use]
    pub fn line_count_restriction(mut self, restriction: LineCountRestriction) -> Self {
        self.line_count_restriction = restriction;
        self
    }

    /// Writes a `.prof` file per action when the report is delivered, for `python -m pstats`,
    /// snakeviz, gprof2dot and others.
    #[must_use]
    pub fn dump_stats(mut self, dump_stats: bool) -> Self {
        self.dump_stats = dump_stats;
        self
    }

    /// Enables or disables the measurement of device time per action, by the devices' own clocks.
    /// It is off by default. Rows of actions then have a column or a table `Device`, and in JSON
    /// [`device`](crate::report::advanced::ActionProfile::device).
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

    /// Returns the numbers recorded so far. Other threads may continue to record meanwhile. The
    /// method waits for pending device regions. On mlprof's own threads, which answer queries and
    /// end a training, the wait is limited to 4 s.
    pub fn snapshot(&self) -> AdvancedReport {
        // The samples are read first, because later samples belong to no reported action.
        #[cfg(feature = "sampling")]
        let samples = self.samples();
        let is_whole = hook::deliver_regions();
        let mut report = summarize::summarize(self.recorder.collect(), &self.output.run());
        #[cfg(feature = "sampling")]
        {
            report.samples = samples;
        }
        report.header.settings = vec![Setting::new("samples", self.sampling_in_words())];
        if let Some(devices) = &self.devices {
            report.header.settings.push(Setting::recorded("device time", true));
            report.header.notes.extend(devices.notes());
        }
        report.header.notes.extend((!is_whole).then(|| hook::STILL_AT_WORK.to_owned()));
        missing::note(&mut report);
        report
    }

    #[cold]
    #[inline(never)]
    fn stop_with_devices(&self, action: Action, devices: &DeviceTime) -> Result<(), NeverStarted> {
        let stopped = self.recorder.stop(action);
        devices.close(action);
        stopped
    }

    /// Returns the report's word for the sampling mode.
    #[cfg(not(feature = "sampling"))]
    fn sampling_in_words(&self) -> &'static str {
        "none"
    }

    /// Assigns later samples to the session that has just begun.
    fn note_session(&self) {
        #[cfg(feature = "sampling")]
        self.sample_session();
    }
}

impl Profiler for AdvancedProfiler {
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
        (Interest::ACTIONS | Interest::FUNCTIONS).measurable()
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
        self.note_session();
    }

    fn teardown(&self, stage: Option<Stage>) {
        hook::deliver_regions();
        self.recorder.end(stage);
        self.note_session();
        self.output.teardown(stage);
    }

    fn summary(&self) -> String {
        pstats::paint(&self.snapshot(), self.line_count_restriction)
    }

    fn report(&self) -> Option<Report> {
        Some(Report::Advanced(self.snapshot()))
    }

    fn output(&self) -> Option<&Output> {
        Some(&self.output)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for AdvancedProfiler {
    fn is_open(&self, action: Action) -> bool {
        self.recorder.is_open(action)
    }

    fn render(&self) -> RenderedReport {
        let report = self.snapshot();
        let (text, missing) =
            (pstats::paint(&report, self.line_count_restriction), missing::of(&report));
        let files: Vec<_> = if self.dump_stats {
            report.actions.iter().map(|action| (action.label(), prof::encode(action))).collect()
        } else {
            Vec::new()
        };
        let printed = pstats::paint_on_console(&report, self.line_count_restriction);
        let rendered = RenderedReport::new(text, Some(Report::Advanced(report)));
        let rendered = rendered.with_console_text(printed);
        files.into_iter().fold(rendered.with_missing(missing), |rendered, (action, content)| {
            rendered.with_file(action, "prof", content)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
