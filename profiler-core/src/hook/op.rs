//! Ops, from where they begin to where they end.

use crate::active::ActiveScope;
use mlprof_events::{Action, Interest, OpStart};

/// An op that has begun; must be [closed](Self::close) on the same thread. Not a guard: hooks carry
/// it through their framework, as the number of [`into_raw`](Self::into_raw) if need be.
#[derive(Debug)]
#[must_use = "an op must be closed"]
pub struct OpScope {
    generation: u64,
    action: Action,
}

impl OpScope {
    /// Opens an op of the active profiler if it wants ops. *Cost*: one relaxed load if not.
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

    /// The scope as two numbers that a foreign language can keep.
    #[doc(hidden)]
    pub fn into_raw(self) -> (u64, u32) {
        (self.generation, self.action.number())
    }

    /// The scope of [`into_raw`](Self::into_raw); `None` for the number 0.
    #[doc(hidden)]
    pub fn from_raw(generation: u64, action: u32) -> Option<Self> {
        Some(Self { generation, action: Action::from_number(action)? })
    }
}
