//! Context of the items in a file.

use super::path::FunctionPath;

/// Context of the items in a file.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub path: FunctionPath,
    /// `true` for items inside a function.
    pub is_inner: bool,
    /// `true` for items inside a trait or a trait implementation.
    pub is_of_trait: bool,
    /// Reason why items in this context cannot have hooks.
    pub obstacle: Option<String>,
}

impl Context {
    pub fn of(path: FunctionPath) -> Self {
        Self { path, is_inner: false, is_of_trait: false, obstacle: None }
    }
}
