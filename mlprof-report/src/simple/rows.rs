//! Row selection and sort keys of a Simple report.

use crate::Error;
use std::cmp::Ordering;
use std::str::FromStr;

use crate::LineCountRestriction;
use crate::simple::{ActionStatistics, DurationStatistics};

/// Selection and order of the actions in a table. The default is all actions in the layout's own
/// order.
///
/// Sums and shares cover all actions, including those that are not shown.
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
    /// Sort key. `None` for the layout's own order.
    pub sort_by: Option<RowKey>,
    /// Limit on the number of remaining actions.
    pub limit: LineCountRestriction,
    /// Returns `true` for the labels of actions to show. `None` to show all actions.
    pub is_shown: Option<&'a dyn Fn(&str) -> bool>,
}
mlprof_events::debug_as_name!([] Rows<'_>);

/// Sort keys of a Simple report. Times and counts sort in descending order, names from A to Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RowKey {
    /// `total`: total time of all calls.
    Total,
    /// `self`: self time, without nested actions.
    SelfTime,
    /// `mean`: mean of all calls. In the detailed layout, the mean of all calls except the first.
    Mean,
    /// `calls`: number of calls.
    Calls,
    /// `first`: duration of the first call.
    First,
    /// `min`: shortest of the other calls.
    Min,
    /// `p50`: median of the other calls.
    P50,
    /// `p95`: 95th percentile of the other calls.
    P95,
    /// `max`: longest of the other calls.
    Max,
    /// `name`: name of the action.
    Name,
    /// `read`: bytes read.
    Read,
    /// `written`: bytes written.
    Written,
    /// `cpu`: CPU time of the thread.
    Cpu,
    /// `waiting`: time in which the thread was not working.
    Waiting,
    /// `switches`: number of context switches of the thread.
    Switches,
    /// `device`: device time.
    Device,
}

impl RowKey {
    /// All sort keys.
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

    /// Returns the key's name as users write it.
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

    /// Returns the number to sort by. Rows with an unknown value come last.
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
