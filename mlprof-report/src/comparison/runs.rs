//! Common interface of the runs that can be compared, for reports and traces.

use super::rows::Rows;
use super::{Subject, advanced, lines, memory, simple, tensor};
use crate::Report;
use crate::training_steps::training_steps;
use mlprof_events::{GroupBy, Stage, UtcTime};

/// Properties that two runs must share to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    /// Kind of profiler that measured the run.
    pub(super) profiler: &'static str,
    pub(super) stage: Option<Stage>,
    /// Rank, if there are several.
    pub(super) rank: Option<u32>,
}

/// A run of one side.
pub(super) trait Run: PartialEq {
    /// Note for sides with different numbers of steps. It names the unit of the numbers, which is a
    /// call or a step, and the effect that they ignore.
    const EACH: &'static str;

    fn key(&self) -> Key;
    /// Returns `true` if the numbers are estimates, which are not compared.
    fn is_estimate(&self) -> bool;
    /// Returns the grouping of the rows, if it is configurable.
    fn grouping(&self) -> Option<GroupBy>;
    /// Returns the rows of the run. If `is_whole` is `true`, the whole grouping identifies a row,
    /// otherwise only its name.
    fn rows(&self, is_whole: bool) -> Rows;
    /// Returns `true` if the numbers of a subject are per call, so that the number of calls also
    /// counts.
    fn is_of_calls(subject: Subject) -> bool;
    fn steps(&self) -> Option<u64>;
    fn started_at(&self) -> UtcTime;
    fn wall_seconds(&self) -> f64;
    /// Returns settings that may differ between runs, each as a name and a value.
    fn settings(&self) -> Vec<(&'static str, String)>;
}

impl Run for Report {
    const EACH: &'static str = "Single calls are compared, so the number of calls does not count.";

    fn key(&self) -> Key {
        let header = self.header();
        Key { profiler: self.kind(), stage: header.stage, rank: header.rank_of_several() }
    }

    fn is_estimate(&self) -> bool {
        matches!(self, Report::Samples(_))
    }

    fn grouping(&self) -> Option<GroupBy> {
        match self {
            Report::Tensor(report) => Some(report.key_averages.group_by),
            _ => None,
        }
    }

    fn rows(&self, is_whole: bool) -> Rows {
        let mut rows = Rows::default();
        match self {
            Report::Simple(report) => simple::append(&mut rows, report),
            Report::Advanced(report) => advanced::append(&mut rows, report),
            Report::Tensor(report) => tensor::append(&mut rows, report, is_whole),
            Report::Memory(memory) => memory::append(&mut rows, memory, training_steps(self)),
            Report::Lines(report) => lines::append(&mut rows, report),
            Report::Samples(_) | Report::Numerics(_) => {}
        }
        rows.take_steps_into_account();
        rows
    }

    fn is_of_calls(subject: Subject) -> bool {
        subject.is_of_calls()
    }

    fn steps(&self) -> Option<u64> {
        training_steps(self)
    }

    fn started_at(&self) -> UtcTime {
        self.header().started_at
    }

    fn wall_seconds(&self) -> f64 {
        self.header().wall_seconds
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let header = self.header();
        let mut settings = vec![("Ranks", header.world_size.to_string())];
        if let Some(build) = &header.build {
            let assertions = if build.debug_assertions { "on" } else { "off" };
            let features = match build.target_features.join(", ") {
                none if none.is_empty() => "none".to_owned(),
                features => features,
            };
            settings.extend([
                ("Optimization level", build.opt_level.clone()),
                ("Debug assertions", assertions.to_owned()),
                ("Target features", features),
            ]);
        }
        if let Report::Tensor(report) = self {
            settings.push(("Device", report.key_averages.device_name.clone()));
        }
        settings
    }
}
