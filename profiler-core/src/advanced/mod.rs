//! The Advanced profiler: which functions the time of every action went to.

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

/// Records an exact call tree per thread of all that is instrumented: actions, functions with
/// `#[profiled]`, `tracing` spans. The counterpart of Lightning's `AdvancedProfiler`, selected by
/// `"advanced"`.
///
/// The report has a table per action in the form of Python's `pstats`, of everything that ran
/// below the action. Unlike Lightning's, an outer action loses nothing when an inner one starts,
/// and all threads are seen.
///
/// *Cost*: about 1.35 times two readings of the time-stamp counter and a push to a buffer, for each
/// start and stop together, whether a function has eight callees or ten thousand, but for what the
/// processor's caches no longer hold, and at any depth. *Memory*: about 200 bytes per place in a
/// thread's call tree, which depends on the program's code and not on the number of calls; at most
/// 65,536 places per thread, and what comes after is counted together and reported. The tables of the
/// report have some 200,000 rows at most: where actions are nested so deeply that there would be more,
/// those of outer actions end some levels further in, and a note says so.
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
    /// Where device time is measured.
    devices: Option<DeviceTime>,
}

impl Default for AdvancedProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl AdvancedProfiler {
    /// All lines, on the console, no `.prof` files.
    pub fn new() -> Self {
        Self::with_recorder(Recorder::new())
    }

    /// One that start-up has nothing to do with.
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

    /// Shows only the first lines of every table.
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

    /// Whether the time that devices take for every action is measured beside the host's, by the devices' own
    /// clocks; not by default. Rows of actions then have a column or a table `Device`, and in JSON
    /// [`device`](crate::report::advanced::ActionProfile::device).
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

    /// The numbers so far. Other threads may go on recording meanwhile. Regions of a device that are
    /// under way are waited for; by threads of mlprof's own, which answer and which end a training, for 4 s at
    /// most.
    pub fn snapshot(&self) -> AdvancedReport {
        // Before all else: what is sampled from here on is of no action that is reported.
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

    /// Returns the report's word for what is sampled.
    #[cfg(not(feature = "sampling"))]
    fn sampling_in_words(&self) -> &'static str {
        "none"
    }

    /// Samples that follow belong to the session that has just begun.
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
