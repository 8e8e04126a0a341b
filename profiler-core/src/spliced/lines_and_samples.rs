//! Measurements of `mlprof run` other than the profilers: lines and stack samples.

use std::sync::Arc;
use std::time::Duration;

use super::enabled_flags::{want, wanted};
use crate::lines::{LineProfiler, PeriodicWriter};
use crate::report::internals::{has_numbers, reason_for_nothing};
use crate::report::lines::memory as lines_memory;
use crate::report::lines::text as lines_text;
use crate::{Output, Report, output};
use mlprof_events::run::{LinesSettings, RunSettings, SamplesSettings};

/// Number of decimals of mebibytes, as in `memory_profiler`.
const MEMORY_PRECISION: usize = 1;

/// Running measurements.
pub(super) struct LinesAndSamples {
    lines: Option<Lines>,
    samples: Option<Samples>,
}

struct Lines {
    profiler: Arc<LineProfiler>,
    writer: Option<PeriodicWriter>,
    settings: LinesSettings,
    output: Output,
}

#[cfg(feature = "sampling")]
struct Samples {
    sampler: crate::sampler::Sampler,
    output: Output,
}

#[cfg(not(feature = "sampling"))]
enum Samples {}

impl LinesAndSamples {
    /// Starts the measurements that the settings request. `output` creates the output for a given
    /// kind of result.
    pub(super) fn start(settings: &RunSettings, output: impl Fn(&str) -> Output) -> Self {
        let lines = settings.lines.as_ref().map(|lines| Lines::start(lines, output("lines")));
        let samples =
            settings.samples.and_then(|samples| Samples::start(samples, output("samples")));
        Self { lines, samples }
    }

    /// Returns `true` if anything is measured.
    pub(super) fn is_any(&self) -> bool {
        self.lines.is_some() || self.samples.is_some()
    }

    /// Returns the reports so far with their outputs. `with_samples` includes stack samples, which
    /// take the longest because debug information is read.
    pub(super) fn reports_so_far(&self, with_samples: bool) -> Vec<(&Output, Report)> {
        let mut reports = Vec::new();
        // Lines with an interval set by the user are written by their own writer.
        if let Some(lines) = self.lines.as_ref().filter(|lines| lines.writer.is_none()) {
            reports.push((&lines.output, Report::Lines(lines.profiler.report())));
        }
        if let Some(samples) = self.samples.as_ref().filter(|_| with_samples) {
            samples.add_report(&mut reports);
        }
        reports
    }

    /// Delivers all results with these notes.
    pub(super) fn finish(self, notes: &[String]) {
        if let Some(samples) = self.samples {
            samples.finish(notes);
        }
        if let Some(lines) = self.lines {
            lines.finish(notes);
        }
    }
}

impl Lines {
    fn start(settings: &LinesSettings, output: Output) -> Self {
        let with_memory = settings.memory;
        let profiler = if with_memory { LineProfiler::with_memory() } else { LineProfiler::new() };
        let profiler = Arc::new(profiler);
        want(wanted::LINES, true);
        let writer = settings.output_interval_seconds.and_then(|seconds| {
            let interval = Duration::try_from_secs_f64(seconds).ok()?;
            let path = output.own_path("json")?;
            let started = PeriodicWriter::start(profiler.clone(), path, interval);
            started
                .map_err(|error| {
                    output::say(format_args!("mlprof: lines are written only at the end: {error}"));
                })
                .ok()
        });
        Self { profiler, writer, settings: settings.clone(), output }
    }

    fn finish(self, notes: &[String]) {
        want(wanted::LINES, false);
        drop(self.writer);
        let report = self.profiler.report();
        let mut text = String::new();
        if self.settings.time {
            let default = lines_text::LinesOptions::default();
            let unit = self.settings.unit_seconds.unwrap_or(default.unit);
            let skip_zero = self.settings.skip_zero;
            let options = lines_text::LinesOptions { unit, skip_zero, ..default };
            text = lines_text::paint(&report, &options);
        }
        if self.settings.memory {
            text += &lines_memory::paint(&report, MEMORY_PRECISION);
        }
        deliver(&self.output, Report::Lines(report), &text, notes);
    }
}

#[cfg(not(feature = "sampling"))]
impl Samples {
    fn start(_settings: SamplesSettings, _output: Output) -> Option<Self> {
        output::say(NOT_BUILT);
        None
    }

    fn add_report<'it>(&'it self, _reports: &mut Vec<(&'it Output, Report)>) {
        match *self {}
    }

    fn finish(self, _notes: &[String]) {
        match self {}
    }
}

/// Message of a program without a sampler when `mlprof run` requests samples.
#[cfg(not(feature = "sampling"))]
const NOT_BUILT: &str = "mlprof: cannot sample: the program was built without sampling; turn on \
                         the feature `sampling` of its mlprof plugin";

#[cfg(feature = "sampling")]
impl Samples {
    fn add_report<'it>(&'it self, reports: &mut Vec<(&'it Output, Report)>) {
        reports.push((&self.output, Report::Samples(self.sampler.report())));
    }

    fn finish(self, notes: &[String]) {
        let report = self.sampler.stop();
        let text = crate::report::advanced::samples::paint(&report);
        deliver(&self.output, Report::Samples(report), &text, notes);
    }

    fn start(settings: SamplesSettings, output: Output) -> Option<Self> {
        let asked = crate::sampler::SamplerSettings::new(settings.hz)
            .frame_pointers(settings.frame_pointers);
        match crate::sampler::Sampler::start(asked) {
            Ok(sampler) => Some(Self { sampler, output }),
            Err(error) => {
                output::say(format_args!("mlprof: cannot sample: {error:?}"));
                None
            }
        }
    }
}

fn deliver(to: &Output, report: Report, text: &str, notes: &[String]) {
    notes.iter().for_each(|note| to.note(note));
    if !has_numbers(&report)
        && let Some(reason) = reason_for_nothing(&report)
    {
        to.note(reason);
    }
    output::deliver(Some(to), text);
    output::deliver_value(Some(to), || Some(report));
}
