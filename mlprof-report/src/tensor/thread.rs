//! Recorded scopes of threads.

use serde::Serialize;

/// Recorded scopes of one thread, or of all threads with one name.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RecordedThread {
    /// Name of the thread. Several threads with the same name share one row.
    pub thread: String,
    /// Number of threads with this name that recorded any scope.
    pub threads: u64,
    /// Number of ops, actions and other scopes.
    pub events: u64,
    /// Total duration of the outermost scopes in seconds. Steps do not count as scopes.
    pub seconds: f64,
}
