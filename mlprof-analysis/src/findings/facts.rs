//! Inputs of the finding rules.

use mlprof_report::finding::{Confidence, Cost, Evidence, FindingParts, Place};
use mlprof_report::findings::Outcome;
use mlprof_report::number::{duration, share};

use crate::answers::{
    Activity, DeviceAnswers, NameTimes, PathKind, PathPart, StepBreakdown, StepPart,
};

/// Analysis results, and sums that several rules need.
pub(crate) struct Facts<'a> {
    pub(crate) steps: &'a [StepBreakdown],
    pub(crate) all_steps: &'a [StepPart],
    pub(crate) names: &'a [NameTimes],
    pub(crate) devices: &'a [DeviceAnswers],
    /// Parts of all steps' critical paths.
    pub(crate) path: Vec<PathPart>,
}

impl<'a> Facts<'a> {
    /// Returns the total duration of all steps in nanoseconds, or that of the trace if it has none.
    pub(super) fn whole_ns(&self) -> i64 {
        self.steps.iter().map(|step| step.duration_ns).sum()
    }

    /// Returns the number of steps. `None` if the trace has none and its single entry covers the
    /// whole trace.
    pub(super) fn step_count(&self) -> Option<u64> {
        let has_steps = self.steps.iter().any(|step| step.number.is_some());
        has_steps.then_some(self.steps.len() as u64)
    }

    /// Returns the covered time in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.whole_ns() as f64 / 1e9
    }

    /// Returns the phrase that sentences use for the total time.
    pub(super) fn time(&self) -> &'static str {
        if self.step_count().is_some() { "the step time" } else { "the trace" }
    }

    /// Returns a duration as a share of the total time, from 0 to 1.
    pub(super) fn part(&self, nanoseconds: i64) -> f64 {
        if self.whole_ns() > 0 { nanoseconds as f64 / self.whole_ns() as f64 } else { 0.0 }
    }

    /// Returns a duration as a share of the total time, formatted as text.
    pub(super) fn share(&self, nanoseconds: i64) -> String {
        share(self.part(nanoseconds), 1.0)
    }

    /// Returns the cost of a finding that can save at most this many nanoseconds.
    pub(super) fn cost(&self, nanoseconds: i64) -> Cost {
        let nanoseconds = nanoseconds.clamp(0, self.whole_ns());
        let seconds = nanoseconds as f64 / 1e9;
        let mut cost = Cost::default();
        cost.seconds_per_step = self.step_count().map(|steps| seconds / steps as f64);
        cost.seconds = seconds;
        cost.share = self.part(nanoseconds);
        cost
    }

    /// Returns the device with the most busy time. A trace does not record which other devices
    /// exist.
    pub(super) fn busiest(&self) -> Option<&'a DeviceAnswers> {
        self.devices.iter().max_by_key(|device| busy(device))
    }

    /// Returns the critical path time in nanoseconds of host work and launch delays, without
    /// waiting for data.
    pub(super) fn host_ns(&self) -> i64 {
        let is_host = |part: &&PathPart| {
            matches!(part.kind, PathKind::Host(activity) if activity != Activity::WaitingForData)
                || part.kind == PathKind::LaunchDelay
        };
        self.path.iter().filter(is_host).map(|part| part.duration_ns).sum()
    }

    /// Returns the critical path time of one kind in nanoseconds.
    pub(super) fn on_path(&self, kind: PathKind) -> i64 {
        let of_kind = self.path.iter().filter(|part| part.kind == kind);
        of_kind.map(|part| part.duration_ns).sum()
    }
}

/// Returns the busy time of a device in the window, in nanoseconds.
pub(super) fn busy(device: &DeviceAnswers) -> i64 {
    let times = &device.times;
    times.compute_ns + times.exposed_communication_ns + times.exposed_memory_ns
}

/// Returns the idle time of a device in the window, in nanoseconds.
pub(super) fn idle(device: &DeviceAnswers) -> i64 {
    device.times.window_ns - busy(device)
}

/// Returns the outcome of a rule that found no problem.
pub(super) fn healthy(evidence: Vec<Evidence>) -> Outcome {
    Outcome::Healthy(evidence)
}

/// Returns the outcome of a rule whose inputs the trace lacks.
pub(super) fn no_inputs(missing: &str) -> Outcome {
    Outcome::NoInputs(missing.to_owned())
}

pub(super) const NO_DEVICE: &str = "the trace has no device work";

/// Creates a finding with the defaults that most findings share.
pub(super) fn finding(
    rule: &str,
    sentence: String,
    evidence: Vec<Evidence>,
    cost: Cost,
) -> FindingParts {
    FindingParts {
        rule: rule.to_owned(),
        sentence,
        evidence,
        place: Place::default(),
        cost,
        confidence: Confidence::Likely,
        remedy: String::new(),
    }
}

pub(super) fn time(nanoseconds: i64) -> String {
    duration(nanoseconds as f64 / 1e9)
}

pub(super) fn part_of(part: i64, whole: i64) -> String {
    share(part as f64, whole as f64)
}
