//! Conversion of the step series of several ranks into a table of stage durations.

use std::collections::BTreeMap;

use super::{Stage, StageTable};
use crate::Report;
use crate::steps::{PARTS, StepEntry, StepSeries};

/// Index of the step part in which ranks wait for each other.
const COLLECTIVES: usize = 3;

/// Returns the stages of a step in execution order: waiting for data, forward, backward,
/// collectives, optimizer, other.
///
/// ```
/// let stages = mlprof_core::report::ranks::step_stages();
/// assert_eq!(stages[0].name, "waiting for data");
/// assert!(stages.iter().all(|stage| stage.waits_for_others == (stage.name == "collectives")));
/// ```
pub fn step_stages() -> Vec<Stage> {
    let stage = |(place, (name, _)): (usize, (&str, _))| Stage {
        name: if place == 0 { "waiting for data" } else { name }.to_owned(),
        waits_for_others: place == COLLECTIVES,
    };
    PARTS.into_iter().enumerate().map(stage).collect()
}

/// Returns the steps that all of these reports have. There is one report per rank, and steps that
/// share an entry also share it here. Returns `None` if a report has no steps, or if there are
/// fewer than two ranks.
///
/// ```
/// use mlprof_core::report::ranks::stages_of_reports;
/// assert!(stages_of_reports(&[]).is_none());
/// ```
pub fn stages_of_reports(reports: &[&Report]) -> Option<StageTable> {
    stages_of_ranks(reports.iter().map(|report| (report.header().rank, report.step_series())))
}

/// Returns the same table for rank numbers with their step series.
pub(crate) fn stages_of_ranks<'steps>(
    all: impl Iterator<Item = (u32, &'steps [StepSeries])>,
) -> Option<StageTable> {
    let mut ranks: BTreeMap<u32, BTreeMap<(u64, u64), _>> = BTreeMap::new();
    for (rank, series) in all {
        let entries = &series.first()?.entries;
        let steps =
            || entries.iter().map(|entry| ((entry.number, entry.count), parts(entry))).collect();
        ranks.entry(rank).or_insert_with(steps);
    }
    let table = || StageTable::of_common_steps(step_stages(), &ranks, |(number, _)| *number);
    (ranks.len() > 1).then(table)
}

/// Maximum accepted duration of a part, 52 days in nanoseconds. A file may contain arbitrary
/// values.
const LONGEST_PART: i64 = 1 << 52;

/// Returns the parts of an entry in nanoseconds.
fn parts(entry: &StepEntry) -> [i64; PARTS.len()] {
    let nanoseconds = |seconds: f64| (seconds * 1e9).round() as i64;
    PARTS.map(|(_, seconds)| nanoseconds(seconds(entry)).clamp(-LONGEST_PART, LONGEST_PART))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples::{rank, steps};
    use crate::ranks::{held_up, stragglers};

    #[test]
    fn the_rank_that_waits_for_data_is_named_over_common_steps() {
        let mut slow = rank(1, 2, 0.031);
        slow.step_series[0].entries.drain(..5);
        let (quick, slow) = (Report::Simple(rank(0, 2, 0.001)), Report::Simple(slow));
        let table = stages_of_reports(&[&slow, &quick]).expect("two ranks");
        assert_eq!((table.ranks.as_slice(), table.steps.len()), ([0, 1].as_slice(), 15));
        assert_eq!(table.exposed()[0].exposed_ns, 15 * 31_000_000);
        let found = stragglers(&table);
        assert_eq!((found[0].rank, found[0].stage.as_str()), (1, "waiting for data"));
        assert_eq!(found[0].longer_ns, 15 * 30_000_000);
    }

    #[test]
    fn of_one_rank_or_without_steps_there_is_no_table() {
        let alone = Report::Simple(rank(0, 2, 0.001));
        assert_eq!(stages_of_reports(&[&alone, &alone]), None);
        let without = Report::Simple(steps(20, 0.05));
        assert_eq!(stages_of_reports(&[&alone, &without]), None);
    }

    #[test]
    fn numbers_beyond_all_bounds_overflow_nothing() {
        for seconds in [f64::MAX, f64::MIN, f64::INFINITY, f64::NAN, 1e17, -1e17] {
            let mut others = rank(1, 2, 0.001);
            for entry in &mut others.step_series[0].entries {
                entry.seconds = seconds;
                entry.data_seconds = seconds;
                entry.forward_seconds = seconds;
                entry.other_seconds = -seconds;
            }
            let (own, others) = (Report::Simple(rank(0, 2, 0.001)), Report::Simple(others));
            let table = stages_of_reports(&[&own, &others]).expect("two ranks");
            let text = held_up(table.steps.len() as u64, &table.exposed(), &stragglers(&table));
            assert!(text.contains("waiting for data") && table.length() > 0, "{text}");
        }
    }
}
