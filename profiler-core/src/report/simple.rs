//! What the Simple profiler found: per action, how often and how long.

use serde::{Deserialize, Serialize};

use super::{OpenAction, ReportHeader};

/// The numbers of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SimpleReport {
    /// Which run and stage; wall time; what measuring cost.
    pub header: ReportHeader,
    /// All threads together, one row per action, the longest total first.
    pub actions: Vec<ActionStatistics>,
    /// The same per thread.
    pub threads: Vec<ThreadStatistics>,
    /// Actions still running.
    pub open: Vec<OpenAction>,
}

/// One thread's rows, or those of all threads of one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadStatistics {
    /// The thread's name, or `thread-N` for one that has none.
    pub thread: String,
    /// How many threads of this name there were.
    pub threads: u64,
    /// One row per action, the longest total first.
    pub actions: Vec<ActionStatistics>,
}

/// One row: all calls of one action that have ended. Times in seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActionStatistics {
    /// Its name.
    pub action: String,
    /// The stage inside the reported one that the row belongs to, if any: sanity-check rows are
    /// kept apart from training.
    pub sub_stage: Option<crate::Stage>,
    /// How many calls have ended.
    pub calls: u64,
    /// Their durations together. Calls inside a call of the same action are counted in `calls`
    /// and not once more in here.
    pub total_seconds: f64,
    /// `total_seconds` without what ran in other actions inside: these add up.
    pub self_seconds: f64,
    /// The very first call, which often pays for compilation, tuning and warm-up.
    pub first_seconds: f64,
    /// All calls but the first; `None` when there was only one.
    pub rest: Option<DurationStatistics>,
}

impl ActionStatistics {
    /// The name as reports show it: rows of a stage inside the reported one carry its name, as in
    /// `[SanityCheck]validation_step`.
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }

    /// The mean over all calls, first included, as Lightning's report shows it.
    pub fn mean_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_seconds / self.calls as f64 }
    }
}

/// How the durations of several calls are distributed. Times in seconds.
///
/// Percentiles come from a histogram with eight buckets per power of two: they are within 7 % of
/// the exact value, and never outside `min` and `max`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DurationStatistics {
    /// The shortest.
    pub min_seconds: f64,
    /// The mean.
    pub mean_seconds: f64,
    /// Half of the calls took no longer.
    pub p50_seconds: f64,
    /// 95 % of the calls took no longer.
    pub p95_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
}
