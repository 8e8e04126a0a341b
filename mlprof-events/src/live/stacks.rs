//! Where threads are, in all code.

use serde::{Deserialize, Serialize};

/// A thread, and what it executed when it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStack {
    /// Its name, as the system keeps it: 15 bytes.
    pub thread: String,
    /// The system's number of it.
    pub number: u32,
    /// The functions that it was in, the innermost first; none if it could not be interrupted, as in the middle of
    /// reading from a disk.
    pub frames: Vec<StackFrame>,
}

/// A function that called the one before it, or that one is inlined into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFrame {
    /// Its name, or where it is in its library if that has no names.
    pub function: String,
    /// The program or library that it is in.
    pub library: String,
    /// Its source file, where debug information says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line that it was at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}
