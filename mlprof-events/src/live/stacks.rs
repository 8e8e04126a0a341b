//! Stacks of threads, covering all code.

use serde::{Deserialize, Serialize};

/// A thread and its stack at the moment it was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStack {
    /// Name of the thread as the system keeps it, at most 15 bytes.
    pub thread: String,
    /// Operating system's id of the thread.
    pub number: u32,
    /// Functions on the stack, innermost first. Empty if the thread could not be interrupted, for
    /// example while it read from a disk.
    pub frames: Vec<StackFrame>,
}

/// One function on a stack: a caller of the previous function, or a function that the previous one
/// is inlined into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackFrame {
    /// Name of the function, or its offset in the library if the library has no symbol names.
    pub function: String,
    /// Program or library that contains the function.
    pub library: String,
    /// Source file, if debug information is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line number in the source file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}
