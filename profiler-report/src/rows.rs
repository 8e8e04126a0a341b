//! Which rows of a Simple report are shown, and in which order.

use std::cmp::Ordering;
use std::str::FromStr;

use super::line_count_restriction::restricted;
use super::simple::{ActionStatistics, DurationStatistics};
use crate::LineCountRestriction;

/// Which actions a table shows, and in which order. By default all, in the layout's own order.
///
/// Sums and shares are of all actions, also of those that are not shown.
///
/// ```
/// use profiler_core::advanced::LineCountRestriction;
/// use profiler_core::report::lightning;
/// use profiler_core::report::rows::Rows;
/// use profiler_core::{ProfilerExt, SimpleProfiler};
///
/// let profiler = SimpleProfiler::new();
/// for action in ["save", "load", "load"] {
///     drop(profiler.profile(action));
/// }
/// let most_called = Rows {
///     sort_by: Some("calls".parse()?),
///     limit: LineCountRestriction::Lines(1),
///     ..Rows::default()
/// };
/// let text = lightning::paint_rows(&profiler.snapshot(), true, &most_called);
/// assert!(text.contains("load") && !text.contains("save"));
/// # Ok::<(), profiler_core::report::rows::UnknownRowKey>(())
/// ```
#[derive(Clone, Copy, Default)]
pub struct Rows<'a> {
    /// The column to sort by; `None`: as the layout does.
    pub sort_by: Option<RowKey>,
    /// How many of the actions that are left.
    pub limit: LineCountRestriction,
    /// Whether an action of this label is shown at all; `None`: every one.
    pub is_shown: Option<&'a dyn Fn(&str) -> bool>,
}

impl Rows<'_> {
    /// The rows to be shown, by `own_key` if none was asked for.
    pub(super) fn select<'rows>(
        &self,
        rows: impl IntoIterator<Item = &'rows ActionStatistics>,
        own_key: RowKey,
    ) -> Vec<&'rows ActionStatistics> {
        let is_shown = |row: &&ActionStatistics| match self.is_shown {
            Some(is_shown) => is_shown(&row.label()),
            None => true,
        };
        let mut rows: Vec<_> = rows.into_iter().filter(is_shown).collect();
        let key = self.sort_by.unwrap_or(own_key);
        rows.sort_by(|one, other| key.compare(one, other));
        rows.truncate(restricted(rows.len(), self.limit).0);
        rows
    }
}

/// What the rows of a Simple report can be sorted by: times and counts with the highest first, names
/// from A to Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowKey {
    /// `total`: the time of all calls.
    Total,
    /// `self`: the same without the actions inside.
    SelfTime,
    /// `mean`: the mean of all calls.
    Mean,
    /// `calls`.
    Calls,
    /// `first`: the first call.
    First,
    /// `min`: the shortest of the other calls.
    Min,
    /// `p50`: their median.
    P50,
    /// `p95`: their 95th percentile.
    P95,
    /// `max`: the longest of them.
    Max,
    /// `name`.
    Name,
    /// `read`: bytes read.
    Read,
    /// `written`: bytes written.
    Written,
    /// `cpu`: CPU time of the thread.
    Cpu,
    /// `waiting`: the time in which the thread was not working.
    Waiting,
    /// `switches`: how often the thread lost its core.
    Switches,
}

impl RowKey {
    /// All keys.
    pub const ALL: [Self; 15] = [
        Self::Total,
        Self::SelfTime,
        Self::Mean,
        Self::Calls,
        Self::First,
        Self::Min,
        Self::P50,
        Self::P95,
        Self::Max,
        Self::Name,
        Self::Read,
        Self::Written,
        Self::Cpu,
        Self::Waiting,
        Self::Switches,
    ];

    /// The key as it is asked for.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::SelfTime => "self",
            Self::Mean => "mean",
            Self::Calls => "calls",
            Self::First => "first",
            Self::Min => "min",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::Max => "max",
            Self::Name => "name",
            Self::Read => "read",
            Self::Written => "written",
            Self::Cpu => "cpu",
            Self::Waiting => "waiting",
            Self::Switches => "switches",
        }
    }

    fn compare(self, one: &ActionStatistics, other: &ActionStatistics) -> Ordering {
        match self {
            Self::Name => one.label().cmp(&other.label()),
            _ => self.number(other).total_cmp(&self.number(one)),
        }
    }

    /// What is not known comes last.
    fn number(self, row: &ActionStatistics) -> f64 {
        let rest = |pick: fn(&DurationStatistics) -> f64| row.rest.as_ref().map(pick);
        let number = match self {
            Self::Total => Some(row.total_seconds),
            Self::SelfTime => Some(row.self_seconds),
            Self::Mean => Some(row.mean_seconds()),
            Self::Calls => Some(row.calls as f64),
            Self::First => Some(row.first_seconds),
            Self::Min => rest(|rest| rest.min_seconds),
            Self::P50 => rest(|rest| rest.p50_seconds),
            Self::P95 => rest(|rest| rest.p95_seconds),
            Self::Max => rest(|rest| rest.max_seconds),
            Self::Name => None,
            Self::Read => row.io.map(|io| io.read_bytes as f64),
            Self::Written => row.io.map(|io| io.written_bytes as f64),
            Self::Cpu => row.cpu.map(|cpu| cpu.thread_seconds),
            Self::Waiting => row.waiting_seconds(),
            Self::Switches => {
                row.cpu.map(|cpu| cpu.voluntary_switches as f64 + cpu.involuntary_switches as f64)
            }
        };
        number.unwrap_or(f64::NEG_INFINITY)
    }
}

impl FromStr for RowKey {
    type Err = UnknownRowKey;

    fn from_str(key: &str) -> Result<Self, UnknownRowKey> {
        let plain = key.trim().to_ascii_lowercase();
        let known = Self::ALL.into_iter().find(|known| known.as_str() == plain);
        known.ok_or_else(|| UnknownRowKey { key: key.to_owned() })
    }
}

/// The rows of a Simple report cannot be sorted by this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "actions cannot be sorted by {key:?}: use one of {choices}",
    choices = RowKey::ALL.map(|known| format!("{:?}", known.as_str())).join(", ")
)]
pub struct UnknownRowKey {
    /// What was asked for.
    pub key: String,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::simple::{CpuStatistics, IoStatistics};

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
        [a, b, c]
    }

    fn sorted(key: &str) -> String {
        let key = key.parse().expect("a key");
        let rows = rows();
        let selection = Rows { sort_by: Some(key), ..Rows::default() };
        let selected = selection.select(&rows, RowKey::Total);
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
        let selection = Rows {
            limit: LineCountRestriction::Share(0.5),
            is_shown: Some(&not_a),
            ..Rows::default()
        };
        let selected = selection.select(&rows, RowKey::Total);
        assert_eq!(selected.iter().map(|row| row.action.as_str()).collect::<String>(), "c");
        assert_eq!(Rows::default().select(&rows, RowKey::Name).len(), 3);
    }
}
