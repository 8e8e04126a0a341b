//! The complete analysis of a trace.

use std::cmp::Reverse;

use mlprof_report::finding::Finding;
use mlprof_report::findings::Explanation;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::answers::{
    CriticalPath, DeviceAnswers, ModuleTimes, NameTimes, OutlierStep, PathKind, PathPart,
    StepBreakdown, StepPart, ThreadTimes,
};
use crate::classify::Meanings;
use crate::device::{self, window::Window, work::DeviceWork};
use crate::findings::{self, Facts};
use crate::host::path::Paths;
use crate::host::steps::{self, Parts, Step};
use crate::host::{outliers, self_times, threads};
use crate::trace::Trace;
use mlprof_report::number::duration;

/// Smallest share of the window at which recording pauses or crossing slices are worth a note.
const NOTED: f64 = 0.001;

/// Version of the JSON layout. It increases when a field of an [`Analysis`] changes or is removed.
pub const SCHEMA_VERSION: u32 = 2;

/// Results of `mlprof analyze` for one trace. Times are whole nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Analysis {
    /// Version of the JSON layout.
    pub schema_version: u32,
    /// Rank of the process in the training job.
    pub rank: u32,
    /// Number of ranks in the training job.
    pub world_size: u32,
    /// Recorded stage, such as `fit`.
    pub stage: Option<String>,
    /// Number of slices in the trace.
    pub slices: u64,
    /// Time from the first to the last moment of the trace, in nanoseconds.
    pub trace_ns: i64,
    /// Steps in order. A trace without steps has one entry, which covers the whole trace.
    pub steps: Vec<StepBreakdown>,
    /// Time of all steps by action and activity, longest first.
    pub all_steps: Vec<StepPart>,
    /// Steps that took much longer than the others.
    pub outliers: Vec<OutlierStep>,
    /// Critical path of each step.
    pub critical_paths: Vec<CriticalPath>,
    /// Busy, waiting and idle time of each thread.
    pub threads: Vec<ThreadTimes>,
    /// Times on threads, grouped by name.
    pub names: Vec<NameTimes>,
    /// Times of the model's modules.
    pub modules: Vec<ModuleTimes>,
    /// Results for each device.
    pub devices: Vec<DeviceAnswers>,
    /// Time of slices that cross other slices of their thread, in nanoseconds. All tables count
    /// this time once, in the innermost slice open at each moment.
    pub crossing_ns: i64,
    /// Findings, most expensive first. Hints come last.
    pub findings: Vec<Finding>,
    /// Names of the finding rules whose inputs the trace contains.
    pub checked_rules: Vec<String>,
    /// Notes about missing or incomplete data in the trace.
    pub notes: Vec<String>,
}

impl Analysis {
    /// Analyses a trace. *Cost*: about 0.3 µs per slice.
    pub fn of(trace: &Trace) -> Self {
        Self::with_path_of(trace, None)
    }

    /// Analyses a trace and keeps the path segments of the step with this number. Without a number,
    /// the segments are those of the step with the median duration.
    #[doc(hidden)]
    pub fn with_path_of(trace: &Trace, number: Option<u64>) -> Self {
        let meanings = Meanings::of(trace);
        let correlations = trace.correlations();
        let work = DeviceWork::of(trace, &correlations);
        let steps = steps::find(trace, &meanings);
        let window = steps::window(trace, &steps);
        let busy = work.busy(trace);
        let (begin, end) = trace.window().unwrap_or((0, 0));
        let parts: Vec<(Parts, i64)> =
            steps.iter().map(|step| steps::parts(trace, &meanings, &busy, step)).collect();
        let breakdowns = steps.iter().zip(&parts);
        let mut all = Parts::default();
        for (part, duration) in parts.iter().flat_map(|(parts, _)| parts) {
            *all.entry(*part).or_default() += duration;
        }
        let paths = Paths::new(trace, &meanings, &correlations, &work);
        let shown = number.map_or_else(
            || middle(&steps),
            |number| steps.iter().position(|step| step.number == Some(number)),
        );
        let critical_paths = steps.iter().enumerate();
        let is_inside = self_times::inside_their_likes(trace);
        let mut analysis = Self {
            schema_version: SCHEMA_VERSION,
            rank: trace.info.rank,
            world_size: trace.info.world_size.max(1),
            stage: trace.info.stage.clone(),
            slices: trace.slices.len() as u64,
            trace_ns: end - begin,
            steps: breakdowns
                .map(|(step, parts)| steps::breakdown(trace, step, begin, parts))
                .collect(),
            all_steps: steps::with_texts(trace, &all),
            outliers: outliers::of(trace, &steps, &parts),
            critical_paths: critical_paths
                .map(|(place, step)| paths.of(step, shown == Some(place)))
                .collect(),
            threads: threads::of(trace, &meanings, &window),
            names: self_times::by_name(trace, &meanings, &correlations, &is_inside),
            modules: self_times::by_module(trace, &meanings, &correlations, &is_inside),
            devices: device::of(
                trace,
                &meanings,
                &correlations,
                &work,
                &paths.waits.events,
                &window,
            ),
            crossing_ns: trace.crossing_ns(),
            findings: Vec::new(),
            checked_rules: Vec::new(),
            notes: notes(trace, &window, &steps),
        };
        (analysis.findings, analysis.checked_rules) = findings::of(&analysis.facts());
        analysis
    }

    /// Returns the outcome and the thresholds of every finding rule for this trace.
    #[doc(hidden)]
    pub fn explain(&self) -> Vec<Explanation> {
        findings::explain(&self.facts())
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            steps: &self.steps,
            all_steps: &self.all_steps,
            names: &self.names,
            devices: &self.devices,
            path: self.path_parts(),
        }
    }

    /// Returns `true` if the trace has numbered steps. A trace without steps has one step without a
    /// number.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps.iter().any(|step| step.number.is_some())
    }

    /// Returns the thread of the step breakdown for headings, such as ` (thread python)`.
    pub(crate) fn thread_of_parts(&self) -> String {
        let mut threads: Vec<&str> = self.steps.iter().map(|step| step.thread.as_str()).collect();
        threads.sort_unstable();
        threads.dedup();
        match threads[..] {
            [] => String::new(),
            [thread] => format!(" ({thread})"),
            _ => " (the threads that ran them)".to_owned(),
        }
    }

    /// Returns the parts of all steps' critical paths, longest first.
    pub(crate) fn path_parts(&self) -> Vec<PathPart> {
        let mut sums: FxHashMap<(PathKind, Option<&str>), (u64, i64)> = FxHashMap::default();
        let parts = self.critical_paths.iter().flat_map(|path| &path.parts);
        for PathPart { kind, name, count, duration_ns } in parts {
            let sum = sums.entry((*kind, name.as_deref())).or_default();
            *sum = (sum.0 + count, sum.1 + duration_ns);
        }
        let mut parts: Vec<_> = sums.into_iter().collect();
        parts.sort_by_key(|((kind, name), (_, duration))| (Reverse(*duration), *kind, *name));
        let part = |((kind, name), (count, duration_ns)): (_, _)| {
            let name: Option<&str> = name;
            PathPart { kind, name: name.map(str::to_owned), count, duration_ns }
        };
        parts.into_iter().map(part).collect()
    }
}

/// Returns the index of the step with the median duration.
fn middle(steps: &[Step]) -> Option<usize> {
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|place| steps[*place].duration());
    order.get(order.len().saturating_sub(1) / 2).copied()
}

fn notes(trace: &Trace, window: &Window, steps: &[Step]) -> Vec<String> {
    let info = &trace.info;
    let mut notes = Vec::new();
    let (start, end) = window.span();
    let paused = end - start - window.length();
    // Consecutive steps leave gaps of some nanoseconds between them.
    if paused as f64 > NOTED * window.length() as f64 {
        notes.push(format!(
            "recording paused for {} between the first and the last step, for example for a validation; time \
             tables exclude the pauses",
            duration(paused as f64 / 1e9)
        ));
    }
    // The epochs that mlprof records cross their first and last steps by microseconds.
    if trace.crossing_ns() as f64 > NOTED * window.length() as f64 {
        notes.push(format!(
            "slices on a thread overlap without nesting: {} of their time is assigned to the innermost open \
             slice",
            duration(trace.crossing_ns() as f64 / 1e9)
        ));
    }
    if steps.iter().any(|step| step.is_batch) {
        notes.push(
            "the steps are batches of an inference server, numbered by time; thread and device tables cover \
             the whole trace"
                .to_owned(),
        );
    }
    if let Some(reason) = &info.cut_short {
        notes.push(format!(
            "the end of the trace is missing: {reason}; the results cover only the part before"
        ));
    }
    if info.dropped > 0 {
        notes.push(format!("{} events were dropped during recording", info.dropped));
    }
    if info.not_understood > 0 && info.notes.is_empty() {
        notes.push(format!("{} unreadable events are missing", info.not_understood));
    }
    notes.extend(info.notes.iter().cloned());
    notes
}
