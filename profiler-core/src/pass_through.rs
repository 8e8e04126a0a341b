//! The profiler that measures nothing.

use crate::profiler::{Inner, Internals};
use crate::{Action, Interest, NeverStarted, Profiler};

/// Measures nothing and reports nothing; what `None` selects. While it is active, hooks cost what
/// they cost without any profiler.
#[derive(Debug, Clone, Copy, Default)]
pub struct PassThroughProfiler;

impl PassThroughProfiler {
    /// The only one there is.
    pub const fn new() -> Self {
        Self
    }
}

impl Profiler for PassThroughProfiler {
    #[inline(always)]
    fn start(&self, _action: Action) {}

    #[inline(always)]
    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn interest(&self) -> Interest {
        Interest::NONE
    }

    fn describe(&self) {}

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for PassThroughProfiler {
    fn separates_sanity_check(&self) -> bool {
        false
    }
}
