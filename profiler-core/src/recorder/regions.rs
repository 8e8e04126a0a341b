//! Device regions, aggregated by action.

use std::collections::{BTreeMap, HashMap};

use crate::report::regions::DeviceRegion;
use crate::{Action, Stage};
use mlprof_events::OrderExt;

/// Maximum number of distinct reasons for missing times.
const REASONS: usize = 16;

/// All device regions of a session. Memory use depends on the number of distinct actions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Regions {
    rows: HashMap<Action, Row>,
    /// Number of regions without a time, by reason.
    lost: BTreeMap<String, u64>,
}

/// Aggregated regions of one action, in nanoseconds of the device's clock.
#[derive(Debug, Clone, Copy)]
struct Row {
    calls: u64,
    total: u64,
    min: u64,
    max: u64,
}

impl Regions {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.lost.is_empty()
    }

    pub(crate) fn add(&mut self, action: Action, nanoseconds: u64) {
        let one = Row { calls: 1, total: nanoseconds, min: nanoseconds, max: nanoseconds };
        self.add_row(action, one);
    }

    fn add_row(&mut self, action: Action, other: Row) {
        let add = |row: &mut Row| {
            row.calls += other.calls;
            row.total = row.total.saturating_add(other.total);
            row.min = row.min.min(other.min);
            row.max = row.max.max(other.max);
        };
        self.rows.entry(action).and_modify(add).or_insert(other);
    }

    pub(crate) fn add_lost(&mut self, why: &str, count: u64) {
        if let Some(known) = self.lost.get_mut(why) {
            *known += count;
        } else {
            let why = if self.lost.len() < REASONS { why } else { "other reasons" };
            *self.lost.entry(why.to_owned()).or_default() += count;
        }
    }

    #[cfg(feature = "tensor")]
    pub(crate) fn merge(&mut self, other: &Self) {
        other.rows.iter().for_each(|(action, row)| self.add_row(*action, *row));
        other.lost.iter().for_each(|(why, count)| self.add_lost(why, *count));
    }

    /// Returns a note for each reason why calls have no device time, with the number of calls.
    /// `one` names a single call (`an action`), `several` a larger number.
    pub(crate) fn notes(&self, one: &str, several: &str) -> impl Iterator<Item = String> {
        self.lost.iter().map(move |(why, count)| match count {
            1 => format!("1 call of {one} has no device time: {why}"),
            count => format!("{count} calls of {several} have no device time: {why}"),
        })
    }
}

/// Returns the rows of a report, longest total first. Actions with the same name share one row.
pub(crate) fn statistics<'regions>(
    stages: impl IntoIterator<Item = (Option<Stage>, &'regions Regions)>,
) -> Vec<DeviceRegion> {
    let mut by_name: HashMap<(Option<Stage>, &'static str), Row> = HashMap::new();
    for (stage, regions) in stages {
        let mut named = Regions::default();
        for (action, row) in &regions.rows {
            // A temporary table with one row performs the addition.
            if let Some(known) = by_name.remove(&(stage, action.name())) {
                named.add_row(*action, known);
            }
            named.add_row(*action, *row);
            by_name.extend(named.rows.drain().map(|(action, row)| ((stage, action.name()), row)));
        }
    }
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let mut rows: Vec<_> = by_name
        .into_iter()
        .map(|((sub_stage, name), row)| DeviceRegion {
            action: name.to_owned(),
            sub_stage,
            calls: row.calls,
            total_seconds: seconds(row.total),
            min_seconds: seconds(row.min),
            max_seconds: seconds(row.max),
        })
        .collect();
    rows.order_by(|one, other| {
        let longest_first = other.total_seconds.total_cmp(&one.total_seconds);
        longest_first.then_with(|| one.label().cmp(&other.label()))
    });
    rows
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ActionKind;

    #[test]
    fn actions_of_one_name_are_one_row_and_stages_are_not() {
        let (action, function) =
            (Action::new("step"), Action::of_kind(ActionKind::Function, "step", None));
        let (mut fit, mut check) = (Regions::default(), Regions::default());
        fit.add(action, 10);
        fit.add(function, 30);
        fit.add(Action::new("short"), 5);
        check.add(action, 7);
        let rows = statistics([(None, &fit), (Some(Stage::SanityCheck), &check)]);
        let seen: Vec<_> = rows.iter().map(|row| (row.label(), row.calls)).collect();
        let labels = [("step".to_owned(), 2), ("[SanityCheck]step".to_owned(), 1)];
        assert_eq!(seen[..2], labels);
        assert_eq!((rows[0].total_seconds, rows[0].min_seconds), (40e-9, 10e-9));
        assert_eq!((rows[0].mean_seconds(), rows[0].max_seconds), (20e-9, 30e-9));
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn reasons_are_counted_and_bounded() {
        let mut regions = Regions::default();
        for number in 0..100 {
            regions.add_lost(&format!("reason {}", number % 50), 1);
        }
        let notes: Vec<_> = regions.notes("a device region", "device regions").collect();
        assert_eq!(notes.len(), REASONS + 1);
        let other = "68 calls of device regions have no device time: other reasons";
        assert!(notes.iter().any(|note| note == other), "{notes:?}");
    }
}
