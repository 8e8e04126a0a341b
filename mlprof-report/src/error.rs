//! Error type of this crate.

/// Error of an invalid request about reports, such as a comparison, a sort key or a rule's
/// threshold.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The two sides have no kind of profiler, stage and rank in common.
    #[error(
        "cannot compare the reports: after has {after}, before has {before}; compare reports of \
         the same profiler, stage and rank"
    )]
    NothingInCommon {
        /// Reports of the side before the change.
        before: String,
        /// Reports of the side after the change.
        after: String,
    },
    /// The reports contain sampling estimates and not measured times.
    #[error("cannot compare reports of samples: they are estimates")]
    Samples,
    /// No action, op or function is on both sides.
    #[error(
        "cannot compare the reports: they share no action, op or function; check that they come \
         from the same program"
    )]
    OtherProgram,
    /// The rows cannot be sorted by this key.
    #[error("cannot sort {rows} by {key:?}: use {choices}")]
    UnknownSortKey {
        /// Kind of rows, in the plural.
        rows: &'static str,
        /// The unknown key.
        key: String,
        /// The valid keys.
        choices: String,
    },
    /// No rule has a threshold with this name.
    #[error("cannot set the threshold {name:?}: no rule has it; the thresholds are {}", known.join(", "))]
    UnknownThreshold {
        /// The unknown name.
        name: String,
        /// Names of all thresholds.
        known: Vec<String>,
    },
    /// The value of a threshold is negative or not a number.
    #[error("cannot set the threshold {name} to {value}: it must be a number of at least 0")]
    InvalidThreshold {
        /// Name of the threshold.
        name: String,
        /// The rejected value.
        value: f64,
    },
}

mlprof_events::debug_as_display!(Error);
