//! Settings of a profiler as text.

use serde::Serialize;

/// One setting of a profiler as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Setting {
    /// Name of the setting: `shapes`.
    pub name: String,
    /// Value of the setting: `recorded`.
    pub value: String,
}

impl Setting {
    /// Creates a setting from its name and value.
    #[doc(hidden)]
    pub fn new(name: &str, value: impl Into<String>) -> Self {
        Self { name: name.to_owned(), value: value.into() }
    }

    /// Creates a setting with the value `recorded` or `not recorded`.
    #[doc(hidden)]
    pub fn recorded(name: &str, is_recorded: bool) -> Self {
        Self::new(name, if is_recorded { "recorded" } else { "not recorded" })
    }
}
