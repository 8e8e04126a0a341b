//! What threads did while steps were recorded.

use serde::Serialize;

/// What one thread recorded, or all threads of one name.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RecordedThread {
    /// The name; of several threads that have it, one row.
    pub thread: String,
    /// How many threads of this name recorded anything.
    pub threads: u64,
    /// Ops, actions and other scopes.
    pub events: u64,
    /// How long its outermost scopes took, in seconds; steps are no scopes of their own.
    pub seconds: f64,
}
