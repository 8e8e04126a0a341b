//! What is around the items of a file.

use super::path::FunctionPath;

/// What is around the items of a file.
#[derive(Debug, Clone)]
pub(super) struct Context {
    pub path: FunctionPath,
    /// Whether they are in a function.
    pub is_inner: bool,
    /// Whether they are in a trait, or in an implementation of one.
    pub is_of_trait: bool,
    /// Why nothing in here can have a hook.
    pub obstacle: Option<String>,
}

impl Context {
    pub fn of(path: FunctionPath) -> Self {
        Self { path, is_inner: false, is_of_trait: false, obstacle: None }
    }
}
