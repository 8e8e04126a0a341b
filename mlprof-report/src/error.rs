//! The error of this crate.

/// The error of a request about reports that cannot be met: a comparison, a table's order, a
/// threshold of a rule.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The reports of both sides are of another kind, stage or rank each.
    #[error(
        "there is nothing to compare: after there is {after}, before there is {before}; reports of \
         one kind of profiler, one stage and one rank are compared with each other"
    )]
    NothingInCommon {
        /// The reports of the side before.
        before: String,
        /// The reports of the side after.
        after: String,
    },
    /// The reports are estimates of where time went, not times.
    #[error(
        "there is nothing to compare: reports of samples are estimates, which are not compared with \
         each other"
    )]
    Samples,
    /// No action, op or function is on both sides.
    #[error(
        "there is nothing to compare: no action, op or function is on both sides; are they of the \
         same program?"
    )]
    OtherProgram,
    /// The rows have no such column to be sorted by.
    #[error("{rows} cannot be sorted by {key:?}: use {choices}")]
    UnknownSortKey {
        /// The kind of rows, in the plural.
        rows: &'static str,
        /// The unknown key.
        key: String,
        /// The keys that there are.
        choices: String,
    },
    /// No rule has a threshold of this name.
    #[error("no rule has a threshold {name:?}: there are {}", known.join(", "))]
    UnknownThreshold {
        /// The unknown name.
        name: String,
        /// The names of all thresholds.
        known: Vec<String>,
    },
    /// The value of a threshold is below 0, or no number.
    #[error("the threshold {name} cannot be {value}: it must be a number from 0 up")]
    InvalidThreshold {
        /// The name of the threshold.
        name: String,
        /// The refused value.
        value: f64,
    },
}

mlprof_events::debug_as_display!(Error);
