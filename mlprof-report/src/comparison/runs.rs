//! What a run has for a comparison, whatever it was measured by.

use super::rows::Rows;
use super::{Subject, advanced, lines, memory, simple, tensor};
use crate::Report;
use crate::training_steps::training_steps;
use mlprof_events::{GroupBy, Stage, UtcTime};

/// What runs must have in common to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    /// What measured it.
    pub(super) profiler: &'static str,
    pub(super) stage: Option<Stage>,
    /// Where there are several.
    pub(super) rank: Option<u32>,
}

/// A run of one side.
pub(super) trait Run: PartialEq {
    /// Says that some numbers are of calls, or of steps, and what that leaves out, where the sides have not
    /// the same number of steps.
    const EACH: &'static str;

    fn key(&self) -> Key;
    /// Whether its numbers are estimates, which are not compared.
    fn is_estimate(&self) -> bool;
    /// What its rows are told apart by, if that can be chosen.
    fn grouping(&self) -> Option<GroupBy>;
    /// `is_whole`: told apart by all that the run tells them apart by, and not by their names alone.
    fn rows(&self, is_whole: bool) -> Rows;
    /// Whether the numbers of a subject are of single calls, so that how often it is called counts besides.
    fn is_of_calls(subject: Subject) -> bool;
    fn steps(&self) -> Option<u64>;
    fn started_at(&self) -> UtcTime;
    fn wall_seconds(&self) -> f64;
    /// What may differ between runs besides times: what it is, and how it was.
    fn settings(&self) -> Vec<(&'static str, String)>;
}

impl Run for Report {
    const EACH: &'static str =
        "Each call is compared with each call: how often something ran does not count.";

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
