//! Error type of this crate.

/// Error of an invalid request about reports, such as a comparison, a sort key or a rule's
/// threshold.
#[derive(Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The two sides have no kind of profiler, stage and rank in common.
    #[error(
        "there is nothing to compare: after there is {after}, before there is {before}; reports of \
         one kind of profiler, one stage and one rank are compared with each other"
    )]
    NothingInCommon {
        /// Reports of the side before the change.
        before: String,
        /// Reports of the side after the change.
        after: String,
    },
    /// The reports contain sampling estimates and not measured times.
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
    /// The rows cannot be sorted by this key.
    #[error("{rows} cannot be sorted by {key:?}: use {choices}")]
    UnknownSortKey {
        /// Kind of rows, in the plural.
        rows: &'static str,
        /// The unknown key.
        key: String,
        /// The valid keys.
        choices: String,
    },
    /// No rule has a threshold with this name.
    #[error("no rule has a threshold {name:?}: there are {}", known.join(", "))]
    UnknownThreshold {
        /// The unknown name.
        name: String,
        /// Names of all thresholds.
        known: Vec<String>,
    },
    /// The value of a threshold is negative or not a number.
    #[error("the threshold {name} cannot be {value}: it must be a number from 0 up")]
    InvalidThreshold {
        /// Name of the threshold.
        name: String,
        /// The rejected value.
        value: f64,
    },
}

mlprof_events::debug_as_display!(Error);
