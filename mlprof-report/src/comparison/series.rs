//! Runs of which numbers are known step by step.

use super::dependence::Dependence;
use super::pairs::compare_runs_of;
use super::rows::{Rows, share};
use super::runs::{Key, Run};
use super::spread::Sample;
use super::{Comparison, Subject};
use crate::Error;
use mlprof_events::{GroupBy, Stage, UtcTime};

/// What stands in place of the profiler's kind.
pub(super) const TRACE: &str = "trace";

/// A run of which each number is known step by step, as it is of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct SteppedRun {
    /// The stage that was recorded, if that is known.
    pub stage: Option<Stage>,
    /// The rank, where there are several.
    pub rank: Option<u32>,
    /// How many processes trained together.
    pub world_size: u32,
    /// When it began, in nanoseconds of Unix time.
    pub started_ns: i64,
    /// How long all of its steps took, in seconds, with what was between them.
    pub wall_seconds: f64,
    /// How many steps there are.
    pub steps: u64,
    /// What is compared.
    pub rows: Vec<SteppedRow>,
}

/// What something took in each step.
#[derive(Debug, Clone, PartialEq)]
pub struct SteppedRow {
    /// What it is one of.
    pub subject: Subject,
    /// Its name. Two rows of one subject have different ones.
    pub name: String,
    /// In seconds, the earliest step first: of those steps that have it.
    pub seconds: Vec<f64>,
}

/// Compares runs before a change with runs after it, their steps with each other, by the rule of
/// [`compare`](super::compare). Several of one stage and rank on a side are several runs.
///
/// # Errors
///
/// If the two sides have nothing in common; the error says what each of them has.
pub fn compare_steps(before: &[SteppedRun], after: &[SteppedRun]) -> Result<Comparison, Error> {
    compare_runs_of(before, after)
}

impl Run for SteppedRun {
    const EACH: &'static str = "Each step is compared with each step.";

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
        // Of few steps a series alone says little of how much they depend on each other.
        let dependence = Dependence::of(self.rows.iter().map(|row| row.seconds.as_slice()));
        let mut rows = Rows::default();
        for row in &self.rows {
            let share = share(row.seconds.iter().sum(), longest);
            // What drifts while the program runs is seen in each series itself.
            if let Some(sample) = Sample::of_series(&row.seconds, share, dependence) {
                rows.add(row.subject, row.name.clone(), sample);
            }
        }
        rows
    }

    /// All are of steps. In how many of them something was is chance where threads do it.
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
