//! Comparison of runs with a value for every step, such as traces.

use super::dependence::Dependence;
use super::pairs::compare_runs_of;
use super::rows::{Rows, share};
use super::runs::{Key, Run};
use super::spread::Sample;
use super::{Comparison, Subject};
use crate::Error;
use mlprof_events::{GroupBy, Stage, UtcTime};

/// Kind of profiler shown for traces.
pub(super) const TRACE: &str = "trace";

/// A run with a value of each row for every step, such as a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct SteppedRun {
    /// Recorded stage, if it is known.
    pub stage: Option<Stage>,
    /// Rank, if there are several.
    pub rank: Option<u32>,
    /// Number of processes that trained together.
    pub world_size: u32,
    /// Start time, in nanoseconds of Unix time.
    pub started_ns: i64,
    /// Time from the first to the last step in seconds, including gaps between steps.
    pub wall_seconds: f64,
    /// Number of steps.
    pub steps: u64,
    /// Rows to compare.
    pub rows: Vec<SteppedRow>,
}

/// Durations of one object in each step.
#[derive(Debug, Clone, PartialEq)]
pub struct SteppedRow {
    /// Kind of object that the row describes.
    pub subject: Subject,
    /// Name of the row, unique within its subject.
    pub name: String,
    /// Durations in seconds, earliest step first. Steps without this row are omitted.
    pub seconds: Vec<f64>,
}

/// Compares the steps of runs before a change with those after it, by the rule of
/// [`compare`](super::compare). Several runs with one stage and rank on a side are treated as
/// repeated runs.
///
/// # Errors
///
/// Returns an error if the two sides have no stage and rank, or no rows, in common. The error lists
/// the runs of each side where the stages and ranks differ.
pub fn compare_steps(before: &[SteppedRun], after: &[SteppedRun]) -> Result<Comparison, Error> {
    compare_runs_of(before, after)
}

impl Run for SteppedRun {
    const EACH: &'static str = "Single steps are compared.";

    fn key(&self) -> Key {
        Key { profiler: TRACE, stage: self.stage, rank: self.rank }
    }

    fn is_estimate(&self) -> bool {
        false
    }

    fn grouping(&self) -> Option<GroupBy> {
        None
    }

    fn rows(&self, _: bool) -> Rows {
        let of_steps = self.rows.iter().filter(|row| row.subject == Subject::Steps);
        let longest = of_steps.map(|row| row.seconds.iter().sum()).fold(0.0, f64::max);
        // With few steps, a single series is too short to estimate the dependence, so all series
        // are combined.
        let dependence = Dependence::of(self.rows.iter().map(|row| row.seconds.as_slice()));
        let mut rows = Rows::default();
        for row in &self.rows {
            let share = share(row.seconds.iter().sum(), longest);
            // Each series contains its own drift, so the drift of the steps is not added here.
            if let Some(sample) = Sample::of_series(&row.seconds, share, dependence) {
                rows.add(row.subject, row.name.clone(), sample);
            }
        }
        rows
    }

    /// Returns `false`, because all numbers are per step. With several threads, the number of steps
    /// that contain a row depends on chance.
    fn is_of_calls(_: Subject) -> bool {
        false
    }

    fn steps(&self) -> Option<u64> {
        Some(self.steps)
    }

    fn started_at(&self) -> UtcTime {
        UtcTime::from_unix_nanoseconds(self.started_ns)
    }

    fn wall_seconds(&self) -> f64 {
        self.wall_seconds
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("Ranks", self.world_size.to_string())]
    }
}
