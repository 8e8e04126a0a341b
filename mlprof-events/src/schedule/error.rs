//! The error of a schedule.

/// The error of a schedule that cannot be followed, or of a text that is no schedule.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The schedule would never record a step.
    #[error("a schedule with active = 0 would never record a step: use 1 or more active steps")]
    NothingActive,
    /// A cycle has more steps than can be counted.
    #[error("wait + warmup + active is more than can be counted: use smaller numbers of steps")]
    TooLong,
    /// A word of the text names no field.
    #[error(
        "{0:?} is no part of a schedule: use skip_first, skip_first_wait, wait, warmup, active or \
         repeat, each as name=number, with commas between them"
    )]
    UnknownField(String),
    /// The value of a field is no whole number.
    #[error("{name}={value} in a schedule: expected a whole number such as {name}=1")]
    NotANumber {
        /// The name of the field.
        name: String,
        /// The text after the `=`.
        value: String,
    },
}

crate::debug_as_display!(ScheduleError);
