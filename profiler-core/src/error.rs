//! The error of this crate.

use std::fmt;

use mlprof_events::ScheduleError;

/// The names that a profiler can be selected by, in any mixture of upper and lower case.
/// `"pytorch"` is Lightning's name for `"tensor"`. Several are joined by `+`: `"simple+nvtx"`.
pub const PROFILER_NAMES: [&str; 7] =
    ["simple", "advanced", "tensor", "pytorch", "numerics", "nvtx", "none"];

/// The error of a setting of this crate: a profiler that cannot be chosen or configured.
///
/// Measuring itself does not fail. The one other error is [`NeverStarted`](crate::NeverStarted),
/// which [`stop`](crate::Profiler::stop) returns on the hot path.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No profiler has this name.
    #[error(
        "there is no profiler named {name:?}{}: use one of {}, several joined by '+', None, or a \
         profiler of your own", Within { name, text }, Choices
    )]
    UnknownProfiler {
        /// The unknown name.
        name: String,
        /// The whole text that was passed, which may name several profilers.
        text: String,
    },
    /// A text or a list names one profiler twice.
    #[error(
        "{name:?} names a profiler that was named before{}: name each one once; there are {}",
        Within { name, text }, Choices
    )]
    RepeatedProfiler {
        /// The second name of the profiler.
        name: String,
        /// The whole text that was passed.
        text: String,
    },
    /// This program is built without the profiler.
    #[error(
        "this program is built without the profiler {profiler:?}: turn on the feature `{profiler}` \
         of its mlprof plugin, or of mlprof-core"
    )]
    NotBuilt {
        /// The name of the profiler, and of its feature.
        profiler: &'static str,
    },
    /// A schedule of steps cannot be followed.
    #[error("cannot follow the schedule")]
    Schedule(#[from] ScheduleError),
    /// Metadata cannot be added to a trace.
    #[cfg(feature = "tensor")]
    #[error("cannot add metadata to the trace")]
    Metadata(#[from] mlprof_trace::Error),
}

mlprof_events::debug_as_display!(Error);

/// The text around a name, if there is more than the name.
struct Within<'error> {
    name: &'error str,
    text: &'error str,
}

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name == self.text.trim() { Ok(()) } else { write!(f, " (in {:?})", self.text) }
    }
}

/// The names that there are.
struct Choices;

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in PROFILER_NAMES.iter().enumerate() {
            write!(f, "{}{name:?}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
