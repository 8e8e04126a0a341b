//! All answers about a trace.

use std::cmp::Reverse;

use mlprof_report::finding::Finding;
use mlprof_report::findings::Explanation;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::answers::{
    CriticalPath, DeviceAnswers, ModuleTimes, NameTimes, OutlierStep, PathKind, PathPart,
    StepBreakdown, StepPart, ThreadTimes,
};
use crate::device::{self, window::Window, work::DeviceWork};
use crate::findings::{self, Facts};
use crate::host::path::Paths;
use crate::host::steps::{self, Parts, Step};
use crate::host::{outliers, self_times, threads};
use crate::meaning::Meanings;
use crate::trace::Trace;
use mlprof_report::number::duration;

/// Pauses of the recording, and time of slices that cross, are noted from this part of the window
/// on.
const NOTED: f64 = 0.001;

/// Raised when a field of an [`Analysis`] changes or goes away.
pub const SCHEMA_VERSION: u32 = 2;

/// What `mlprof analyze` says of a trace. Times are whole nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Analysis {
    /// The version of its layout.
    pub schema_version: u32,
    /// The number of the process among those that train together.
    pub rank: u32,
    /// How many train together.
    pub world_size: u32,
    /// The stage that was recorded.
    pub stage: Option<String>,
    /// How many slices the trace has.
    pub slices: u64,
    /// From its first to its last moment.
    pub trace_ns: i64,
    /// The steps, in their order. Without any it is one that is all of the trace.
    pub steps: Vec<StepBreakdown>,
    /// What the time of all steps together went into, the longest first.
    pub all_steps: Vec<StepPart>,
    /// Steps that took much longer than the others.
    pub outliers: Vec<OutlierStep>,
    /// What the end of each step waited for.
    pub critical_paths: Vec<CriticalPath>,
    /// What threads did.
    pub threads: Vec<ThreadTimes>,
    /// Everything on threads by name.
    pub names: Vec<NameTimes>,
    /// Modules of the model.
    pub modules: Vec<ModuleTimes>,
    /// What devices did.
    pub devices: Vec<DeviceAnswers>,
    /// Time of slices that cross others of their thread, in nanoseconds. All tables count it once,
    /// in the innermost slice open at each moment.
    pub crossing_ns: i64,
    /// What costs time that could be saved, what costs most first; hints come last.
    pub findings: Vec<Finding>,
    /// The rules for findings that had what they look at.
    pub checked_rules: Vec<String>,
    /// What is missing of the trace, in words.
    pub notes: Vec<String>,
}

impl Analysis {
    /// Everything about a trace. *Cost*: some 0.3 µs per slice.
    pub fn of(trace: &Trace) -> Self {
        Self::with_path_of(trace, None)
    }

    /// The same, with all of the critical path of the step of this number in place of the middle one's.
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

    /// What every rule for findings says of the trace, and by which thresholds.
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

    /// Whether the trace has steps: without any it is one step that has no number.
    pub(crate) fn has_steps(&self) -> bool {
        self.steps.iter().any(|step| step.number.is_some())
    }

    /// The thread that the parts of steps are about, for headings: ` (thread python)`.
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

    /// What the critical paths of all steps go through, the longest first.
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

/// The place of the step in the middle of all, by how long they took.
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
    // Steps that follow each other do not touch to the nanosecond.
    if paused as f64 > NOTED * window.length() as f64 {
        notes.push(format!(
            "recording paused for {} between the first and the last step, as for a validation: \
             tables of time leave this out",
            duration(paused as f64 / 1e9)
        ));
    }
    // Epochs of mlprof cross their first and last steps by microseconds.
    if trace.crossing_ns() as f64 > NOTED * window.length() as f64 {
        notes.push(format!(
            "slices cross each other on a thread: {} of theirs belongs to the innermost slice open at each moment",
            duration(trace.crossing_ns() as f64 / 1e9)
        ));
    }
    if steps.iter().any(|step| step.is_batch) {
        notes.push(
            "the steps are batches of an inference server, numbered in the order of time; tables of threads \
             and devices are about the whole trace"
                .to_owned(),
        );
    }
    if let Some(reason) = &info.cut_short {
        notes.push(format!("the end of the trace is missing: {reason}; this is what came before"));
    }
    if info.dropped > 0 {
        notes.push(format!("{} events were dropped while it was recorded", info.dropped));
    }
    if info.not_understood > 0 && info.notes.is_empty() {
        notes.push(format!("{} events could not be read", info.not_understood));
    }
    notes.extend(info.notes.iter().cloned());
    notes
}
