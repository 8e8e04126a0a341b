//! Sort keys and row restrictions of the function tables.

use crate::Error;
use std::cmp::Ordering;
use std::str::FromStr;

use super::Labels;
use crate::LineCountRestriction;
use crate::advanced::FunctionStatistics;

/// Options for printing the tables, like the arguments of Python's `sort_stats` and `print_stats`.
///
/// ```
/// use mlprof_core::report::LineCountRestriction;
/// use mlprof_core::report::advanced::pstats::{self, PstatsOptions, Restriction, SortKey};
/// use mlprof_core::{AdvancedProfiler, ProfilerExt};
///
/// let profiler = AdvancedProfiler::new();
/// drop(profiler.profile("training_step"));
/// let options = PstatsOptions {
///     sort_by: &["ncalls".parse()?, SortKey::SelfTime],
///     restrictions: &[Restriction::Count(LineCountRestriction::Lines(10))],
/// };
/// let text = pstats::paint_with(&profiler.snapshot(), &options);
/// assert!(text.contains("   Ordered by: call count, internal time\n"));
/// # Ok::<(), mlprof_core::report::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PstatsOptions<'a> {
    /// Sort keys. Each key orders the functions that are equal by the keys before it. Empty to keep
    /// the order of the report.
    pub sort_by: &'a [SortKey],
    /// Restrictions on the printed functions. Each one applies to the functions left by the one
    /// before it.
    pub restrictions: &'a [Restriction<'a>],
}

/// Selects a part of a table's functions.
#[derive(Clone, Copy)]
pub enum Restriction<'a> {
    /// Keeps this number of functions from the top.
    Count(LineCountRestriction),
    /// Keeps the functions with a matching `file:line(function)` label.
    Matching {
        /// Pattern as the report prints it.
        pattern: &'a str,
        /// Returns `true` if a label matches the pattern.
        is_match: &'a dyn Fn(&str) -> bool,
    },
}
mlprof_events::debug_as_name!([] Restriction<'_>);

/// Sort keys with the names that Python uses. Calls and times sort in descending order, the other
/// keys from A to Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SortKey {
    /// `calls`, `ncalls`: number of all calls.
    Calls,
    /// `pcalls`: number of primitive calls, which excludes recursive ones.
    PrimitiveCalls,
    /// `tottime`, `time`: self time.
    SelfTime,
    /// `cumulative`, `cumtime`: cumulative time.
    Cumulative,
    /// `filename`, `module`: name of the source file.
    File,
    /// `line`: line number.
    Line,
    /// `name`: name of the function.
    Name,
    /// `nfl`: name, then file, then line.
    NameFileLine,
    /// `stdname`: label printed in the last column.
    StandardName,
}

/// Names that users can write for each sort key.
const KEYS: [(&str, SortKey); 13] = [
    ("cumulative", SortKey::Cumulative),
    ("cumtime", SortKey::Cumulative),
    ("tottime", SortKey::SelfTime),
    ("time", SortKey::SelfTime),
    ("ncalls", SortKey::Calls),
    ("calls", SortKey::Calls),
    ("pcalls", SortKey::PrimitiveCalls),
    ("filename", SortKey::File),
    ("module", SortKey::File),
    ("line", SortKey::Line),
    ("name", SortKey::Name),
    ("nfl", SortKey::NameFileLine),
    ("stdname", SortKey::StandardName),
];

impl SortKey {
    /// Returns the title printed after `Ordered by:`.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Calls => "call count",
            Self::PrimitiveCalls => "primitive call count",
            Self::SelfTime => "internal time",
            Self::Cumulative => "cumulative time",
            Self::File => "file name",
            Self::Line => "line number",
            Self::Name => "function name",
            Self::NameFileLine => "name/file/line",
            Self::StandardName => "standard name",
        }
    }

    pub(super) fn compare(
        self,
        labels: &Labels<'_>,
        one: &FunctionStatistics,
        other: &FunctionStatistics,
    ) -> Ordering {
        let file = |statistics| Labels::short(statistics).0;
        let (this, that) = (&one.function, &other.function);
        match self {
            Self::Calls => other.calls.total_calls.cmp(&one.calls.total_calls),
            Self::PrimitiveCalls => other.calls.primitive_calls.cmp(&one.calls.primitive_calls),
            Self::SelfTime => other.calls.self_seconds.total_cmp(&one.calls.self_seconds),
            Self::Cumulative => {
                other.calls.cumulative_seconds.total_cmp(&one.calls.cumulative_seconds)
            }
            Self::File => file(this).cmp(file(that)),
            Self::Line => this.line.cmp(&that.line),
            Self::Name => this.name.cmp(&that.name),
            Self::NameFileLine => {
                (&this.name, file(this), this.line).cmp(&(&that.name, file(that), that.line))
            }
            Self::StandardName => labels.of(this).cmp(&labels.of(that)),
        }
    }
}

impl FromStr for SortKey {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self, Error> {
        let plain = key.trim().to_ascii_lowercase();
        let known = KEYS.into_iter().find(|(known, _)| *known == plain);
        known.map(|(_, key)| key).ok_or_else(|| {
            let choices = KEYS.map(|(known, _)| format!("{known:?}")).join(", ");
            let choices = format!("one of {choices}");
            Error::UnknownSortKey { rows: "functions", key: key.to_owned(), choices }
        })
    }
}
