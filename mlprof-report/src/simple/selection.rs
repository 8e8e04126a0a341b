//! Selection of a report's rows: those that the user requested, and on the console only the longer
//! ones.

use std::collections::HashMap;

use crate::line_count_restriction::restricted;
use crate::number::grouped;
use crate::simple::ActionStatistics;
use crate::simple::rows::{RowKey, Rows};
use crate::table::LEAST_SHARE;
use crate::{OpenAction, ReportHeader};
use mlprof_events::OrderExt;

/// Line below console tables that have a row for all small rows.
pub(crate) const ALL_ROWS_HINT: &str =
    "MLPROF_ALL_ROWS=1 or .all_rows(true) prints all rows; report files contain them.\n";

/// Number of rows shown if no row is long enough.
const FEWEST_SHOWN: usize = 10;

/// [`Rows`] with a minimum duration of the rows shown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Selection<'a> {
    pub(crate) rows: Rows<'a>,
    /// Minimum total time of a row, in seconds. If no row reaches it, the longest few are shown.
    pub(crate) least_seconds: f64,
}

impl<'a> From<&Rows<'a>> for Selection<'a> {
    fn from(rows: &Rows<'a>) -> Self {
        Self { rows: *rows, least_seconds: 0.0 }
    }
}

impl Selection<'_> {
    /// Returns the selection for the console: rows with a total of at least
    /// [`LEAST_SHARE`] of the wall time.
    pub(crate) fn on_console(header: &ReportHeader) -> Self {
        let least_seconds = LEAST_SHARE * header.wall_seconds;
        Self { least_seconds, ..Self::default() }
    }

    /// Returns the rows to show, sorted by `own_key` unless another key is set.
    pub(crate) fn select<'rows>(
        &self,
        rows: impl IntoIterator<Item = &'rows ActionStatistics>,
        own_key: RowKey,
        running: &Running<'_>,
    ) -> Vec<&'rows ActionStatistics> {
        let is_shown = |row: &&ActionStatistics| match self.rows.is_shown {
            Some(is_shown) => is_shown(&row.label()),
            None => true,
        };
        let mut rows: Vec<_> = rows.into_iter().filter(is_shown).collect();
        self.retain_long(&mut rows, |row| running.total(row));
        let key = self.rows.sort_by.unwrap_or(own_key);
        match key {
            RowKey::Total => {
                rows.order_by(|one, other| running.total(other).total_cmp(&running.total(one)));
            }
            // In the layout that is ordered by self time, the mean excludes the first call.
            RowKey::Mean if own_key == RowKey::SelfTime => {
                let mean = |row: &ActionStatistics| {
                    row.rest.as_ref().map_or(f64::NEG_INFINITY, |rest| rest.mean_seconds)
                };
                rows.order_by(|one, other| mean(other).total_cmp(&mean(one)));
            }
            _ => rows.order_by(|one, other| key.compare(one, other)),
        }
        rows.truncate(restricted(rows.len(), self.rows.limit).0);
        rows
    }

    /// Removes rows below the minimum time. If all rows are shorter, the longest few are kept.
    pub(crate) fn retain_long<T>(&self, rows: &mut Vec<T>, total: impl Fn(&T) -> f64) {
        // The comparison is `false` if the wall time is NaN.
        if self.least_seconds > 0.0 {
            let is_long = |row: &T| total(row) >= self.least_seconds;
            if rows.iter().any(is_long) {
                rows.retain(is_long);
            } else {
                rows.order_by(|one, other| total(other).total_cmp(&total(one)));
                rows.truncate(FEWEST_SHOWN);
            }
        }
    }

    /// Returns the line that counts the hidden rows. The table shows `shown` of `all` rows.
    pub(crate) fn note(&self, shown: usize, all: usize) -> Option<String> {
        let left_out = all.checked_sub(shown).filter(|left_out| *left_out > 0)?;
        if self.least_seconds <= 0.0 {
            return Some(format!("{shown} of {all} actions are shown."));
        }
        let share = 100.0 * LEAST_SHARE;
        Some(format!(
            "{} more {} below {share} % of the wall time; .all_rows(true) or MLPROF_ALL_ROWS=1 \
             prints {}, and report files have all rows.",
            grouped(left_out as u64),
            if left_out == 1 { "row is" } else { "rows are each" },
            if left_out == 1 { "it" } else { "them" },
        ))
    }
}

/// Durations of open actions, which their rows do not include.
///
/// A row is sorted as if its open calls had ended, so that an action comes before the actions
/// inside it.
#[derive(Debug, Default)]
pub(crate) struct Running<'report>(HashMap<&'report str, f64>);

impl<'report> Running<'report> {
    pub(crate) fn of(open: &'report [OpenAction]) -> Self {
        let mut longest: HashMap<(&str, &str), f64> = HashMap::new();
        for OpenAction { action, thread, elapsed_seconds } in open {
            // A recursive call is part of the outer call's time.
            let longest = longest.entry((action, thread)).or_default();
            *longest = longest.max(*elapsed_seconds);
        }
        let mut sums = HashMap::new();
        for ((action, _), seconds) in longest {
            *sums.entry(action).or_default() += seconds;
        }
        Self(sums)
    }

    /// Returns the total time of the row in seconds, including open calls.
    pub(crate) fn total(&self, row: &ActionStatistics) -> f64 {
        row.total_seconds + self.seconds(&row.action)
    }

    /// Returns the time that calls of this action have been open, in seconds.
    pub(crate) fn seconds(&self, action: &str) -> f64 {
        self.0.get(action).copied().unwrap_or(0.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::LineCountRestriction;
    use crate::regions::DeviceTime;
    use crate::simple::{CpuStatistics, DurationStatistics, IoStatistics};

    fn row(action: &str, calls: u64, total_seconds: f64) -> ActionStatistics {
        ActionStatistics {
            action: action.to_owned(),
            sub_stage: None,
            inside: None,
            calls,
            total_seconds,
            self_seconds: 10.0 - total_seconds,
            first_seconds: 1.0 / total_seconds,
            rest: None,
            io: None,
            cpu: None,
            device: None,
        }
    }

    fn rows() -> [ActionStatistics; 3] {
        let (mut a, b, mut c) = (row("a", 1, 3.0), row("b", 20, 2.0), row("c", 5, 4.0));
        let rest = |min_seconds| DurationStatistics {
            min_seconds,
            mean_seconds: 1.0,
            p50_seconds: -min_seconds,
            p50_limits: None,
            p95_seconds: -min_seconds,
            max_seconds: min_seconds,
        };
        (a.rest, c.rest) = (Some(rest(1.0)), Some(rest(2.0)));
        a.io = Some(IoStatistics { read_bytes: 1, written_bytes: 2, ..Default::default() });
        c.io = Some(IoStatistics { read_bytes: 2, written_bytes: 1, ..Default::default() });
        let cpu = |thread_seconds| CpuStatistics { thread_seconds, ..Default::default() };
        (a.cpu, c.cpu) = (Some(cpu(0.5)), Some(cpu(3.0)));
        let device = |total_seconds| DeviceTime {
            calls: 1,
            total_seconds,
            min_seconds: total_seconds,
            max_seconds: total_seconds,
        };
        (a.device, c.device) = (Some(device(2.0)), Some(device(1.0)));
        [a, b, c]
    }

    fn sorted(key: &str) -> String {
        let key = key.parse().expect("a key");
        let rows = rows();
        let selection = Selection::from(&Rows { sort_by: Some(key), ..Rows::default() });
        let selected = selection.select(&rows, RowKey::Total, &Running::default());
        selected.into_iter().map(|row| row.action.as_str()).collect()
    }

    #[test]
    fn rows_are_sorted_by_every_key() {
        for (key, order) in [
            ("total", "cab"),
            ("Self ", "bac"),
            ("mean", "acb"),
            ("calls", "bca"),
            ("first", "bac"),
            ("min", "cab"),
            ("p50", "acb"),
            ("p95", "acb"),
            ("max", "cab"),
            ("name", "abc"),
            ("read", "cab"),
            ("written", "acb"),
            ("cpu", "cab"),
            ("waiting", "acb"),
            ("switches", "acb"),
            ("device", "acb"),
        ] {
            assert_eq!(sorted(key), order, "{key}");
        }
        assert!(RowKey::ALL.into_iter().all(|key| key.as_str().parse() == Ok(key)));
        let error = "duration".parse::<RowKey>().expect_err("no key").to_string();
        assert!(error.contains("\"duration\"") && error.contains("\"total\", \"self\""), "{error}");
    }

    #[test]
    fn a_share_is_of_the_rows_that_are_left() {
        let rows = rows();
        let not_a = |label: &str| label != "a";
        let selection = Selection::from(&Rows {
            limit: LineCountRestriction::Share(0.5),
            is_shown: Some(&not_a),
            ..Rows::default()
        });
        let selected = selection.select(&rows, RowKey::Total, &Running::default());
        assert_eq!(selected.iter().map(|row| row.action.as_str()).collect::<String>(), "c");
        assert_eq!(Selection::default().select(&rows, RowKey::Name, &Running::default()).len(), 3);
    }

    #[test]
    fn short_rows_are_left_out_unless_all_are_short() {
        let rows = rows();
        let shown = |least_seconds| {
            let selection = Selection { least_seconds, ..Selection::default() };
            let shown = selection.select(&rows, RowKey::Total, &Running::default()).len();
            (shown, selection.note(shown, rows.len()).unwrap_or_default())
        };
        assert_eq!(shown(2.0), (3, String::new()));
        let (count, note) = shown(3.5);
        assert_eq!(count, 1);
        assert!(note.starts_with("2 more rows are each below 0.1 % of the wall time; "), "{note}");
        assert_eq!(shown(5.0).0, 3, "no row is that long");
        assert_eq!(shown(f64::NAN).0, 3);
    }

    #[test]
    fn a_row_counts_what_is_still_open_when_it_is_sorted() {
        let rows = rows();
        let open = |thread: &str, elapsed_seconds| OpenAction {
            action: "b".into(),
            thread: thread.into(),
            elapsed_seconds,
        };
        // The second call of the same thread is nested in the first.
        let open = [open("main", 1.0), open("main", 0.9), open("other", 1.5)];
        let selected = Selection::default().select(&rows, RowKey::Total, &Running::of(&open));
        assert_eq!(selected.iter().map(|row| row.action.as_str()).collect::<String>(), "bca");
    }
}
