//! Error type of this crate.

use std::fmt;

use mlprof_events::ScheduleError;

/// Names that select a profiler, case-insensitive. `"pytorch"` is Lightning's name for `"tensor"`.
/// Join several names with `+`: `"simple+nvtx"`.
pub const PROFILER_NAMES: [&str; 7] =
    ["simple", "advanced", "tensor", "pytorch", "numerics", "nvtx", "none"];

/// Error for a profiler that cannot be selected or configured.
///
/// Measuring itself does not fail. The only other error is [`NeverStarted`](crate::NeverStarted),
/// which [`stop`](crate::Profiler::stop) returns on the hot path.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name does not match any profiler.
    #[error(
        "cannot find a profiler named {name:?}{}: use one of {}, several joined by '+', None, or a \
         profiler of your own", Within { name, text }, Choices
    )]
    UnknownProfiler {
        /// The unknown name.
        name: String,
        /// The full text that was passed, which may name several profilers.
        text: String,
    },
    /// The text or list names one profiler twice.
    #[error(
        "cannot use the profiler {name:?} twice{}: name each one once; there are {}",
        Within { name, text }, Choices
    )]
    RepeatedProfiler {
        /// The repeated name.
        name: String,
        /// The full text that was passed.
        text: String,
    },
    /// This program was built without the profiler.
    #[error(
        "cannot use the profiler {profiler:?}: the program was built without it; turn on the \
         feature `{profiler}` of its mlprof plugin, or of mlprof-core"
    )]
    NotBuilt {
        /// Name of the profiler, which is also the name of its Cargo feature.
        profiler: &'static str,
    },
    /// The schedule cannot be used.
    #[error("cannot follow the schedule")]
    Schedule(#[from] ScheduleError),
    /// Metadata cannot be added to a trace.
    #[cfg(feature = "tensor")]
    #[error("cannot add metadata to the trace")]
    Metadata(#[from] mlprof_trace::Error),
}

mlprof_events::debug_as_display!(Error);

/// Displays the full text around a name. It displays nothing if the text is only the name.
struct Within<'error> {
    name: &'error str,
    text: &'error str,
}

impl fmt::Display for Within<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name == self.text.trim() { Ok(()) } else { write!(f, " (in {:?})", self.text) }
    }
}

/// Displays the list of valid profiler names.
struct Choices;

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, name) in PROFILER_NAMES.iter().enumerate() {
            write!(f, "{}{name:?}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
