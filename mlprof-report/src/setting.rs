//! What a profiler was asked for.

use serde::Serialize;

/// One setting of a profiler, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Setting {
    /// What it is about: `shapes`.
    pub name: String,
    /// What holds: `recorded`.
    pub value: String,
}

impl Setting {
    /// The setting of this name.
    #[doc(hidden)]
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }

    /// Whether something is recorded.
    #[doc(hidden)]
    pub fn recorded(name: &str, is_recorded: bool) -> Self {
        Self::new(name, if is_recorded { "recorded" } else { "not recorded" })
    }
}
