//! Scope of an op, from start to end.

use crate::active::ActiveScope;
use mlprof_events::{Action, Interest, OpStart};

/// An open op, which must be [closed](Self::close) on the thread that opened it. It is not a drop
/// guard. Hooks pass it through their framework, if necessary in the form of
/// [`into_raw`](Self::into_raw).
#[derive(Debug)]
#[must_use = "an op must be closed"]
pub struct OpScope {
    generation: u64,
    action: Action,
}

impl OpScope {
    /// Opens an op. Returns `None` if the active profiler does not want ops. *Cost*: one relaxed
    /// load in that case.
    #[inline]
    pub fn open(op: &OpStart<'_>) -> Option<Self> {
        ActiveScope::open_op(op, Interest::OPS)
            .map(|generation| Self { generation, action: op.action })
    }

    /// Ends the op.
    #[inline]
    pub fn close(self) {
        ActiveScope::close(self.generation, self.action);
    }

    /// Returns the scope as two integers that foreign code can store.
    #[doc(hidden)]
    pub fn into_raw(self) -> (u64, u32) {
        (self.generation, self.action.number())
    }

    /// Restores the scope from [`into_raw`](Self::into_raw). Returns `None` if `action` is 0.
    #[doc(hidden)]
    pub fn from_raw(generation: u64, action: u32) -> Option<Self> {
        Some(Self { generation, action: Action::from_number(action)? })
    }
}
