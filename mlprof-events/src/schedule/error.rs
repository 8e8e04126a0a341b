//! Errors of schedules.

/// Error for an invalid schedule, or for a text that cannot be parsed as a schedule.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The schedule would never record a step.
    #[error(
        "cannot use a schedule with active = 0: it never records a step; use 1 or more active \
             steps"
    )]
    NothingActive,
    /// The number of steps in a cycle overflows.
    #[error(
        "cannot use the schedule: wait + warmup + active is too large; use smaller numbers of \
             steps"
    )]
    TooLong,
    /// A word of the text is not the name of a field.
    #[error(
        "cannot parse {0:?} in a schedule: use skip_first, skip_first_wait, wait, warmup, active \
         or repeat, each as name=number, separated by commas"
    )]
    UnknownField(String),
    /// The value of a field is not a whole number.
    #[error("cannot parse {name}={value} in a schedule: use a whole number such as {name}=1")]
    NotANumber {
        /// Name of the field.
        name: String,
        /// Text after the `=`.
        value: String,
    },
}

crate::debug_as_display!(ScheduleError);
