//! Which rows of a Simple report are shown, and in which order.

use crate::Error;
use std::cmp::Ordering;
use std::str::FromStr;

use crate::LineCountRestriction;
use crate::simple::{ActionStatistics, DurationStatistics};

/// Which actions a table shows, and in which order. By default all, in the layout's own order.
///
/// Sums and shares are of all actions, also of those that are not shown.
///
/// ```
/// use mlprof_core::report::LineCountRestriction;
/// use mlprof_core::report::simple::lightning;
/// use mlprof_core::report::simple::rows::Rows;
/// use mlprof_core::{ProfilerExt, SimpleProfiler};
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
/// # Ok::<(), mlprof_core::report::Error>(())
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
mlprof_events::debug_as_name!([] Rows<'_>);

/// What the rows of a Simple report can be sorted by: times and counts with the highest first, names
/// from A to Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowKey {
    /// `total`: the time of all calls.
    Total,
    /// `self`: the same without the actions inside.
    SelfTime,
    /// `mean`: the mean of all calls; in the detailed layout, of all calls except the first.
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
    /// `device`: device time.
    Device,
}

impl RowKey {
    /// All keys.
    pub const ALL: [Self; 16] = [
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
        Self::Device,
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
            Self::Device => "device",
        }
    }

    pub(crate) fn compare(self, one: &ActionStatistics, other: &ActionStatistics) -> Ordering {
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
            Self::Device => row.device.map(|device| device.total_seconds),
            Self::Switches => {
                row.cpu.map(|cpu| cpu.voluntary_switches as f64 + cpu.involuntary_switches as f64)
            }
        };
        number.unwrap_or(f64::NEG_INFINITY)
    }
}

impl FromStr for RowKey {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self, Error> {
        let plain = key.trim().to_ascii_lowercase();
        let known = Self::ALL.into_iter().find(|known| known.as_str() == plain);
        known.ok_or_else(|| {
            let choices = Self::ALL.map(|known| format!("{:?}", known.as_str())).join(", ");
            let choices = format!("one of {choices}");
            Error::UnknownSortKey { rows: "actions", key: key.to_owned(), choices }
        })
    }
}
