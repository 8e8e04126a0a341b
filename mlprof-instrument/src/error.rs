//! Errors of a selection.

use std::path::PathBuf;

/// Invalid pattern.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` {reason}")]
pub struct PatternError {
    /// Text of the pattern.
    pub pattern: String,
    /// Reason, which is appended to the pattern in messages.
    pub reason: &'static str,
}

mlprof_events::debug_as_display!(PatternError);

/// Error that prevents the creation of a selection.
#[derive(thiserror::Error)]
pub enum SelectError {
    /// A function pattern is invalid.
    #[error(
        "{0}\nwrite a function path, such as `my_model::net::Net::forward`; `*` matches any part of a name, \
         and `**` any number of modules; `my_model` alone and `my_model::*` select all functions of a crate"
    )]
    Pattern(#[from] PatternError),
    /// No preset or file has this name.
    #[error(
        "cannot select the ops `{name}`: the presets are {}; for another framework give the path of a rule \
         file (`./my-framework.toml`)",
        .known.join(", ")
    )]
    UnknownPreset {
        /// Requested name.
        name: String,
        /// Names of all presets.
        known: Vec<&'static str>,
    },
    /// A rule file cannot be read.
    #[error("cannot read the rule file {}: {reason}", .path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        reason: std::io::Error,
    },
    /// A rule file is invalid.
    #[error("cannot use the rule file {}: {reason}", .path.display())]
    Rules {
        /// Path of the file.
        path: PathBuf,
        /// Position and reason.
        reason: String,
    },
}

mlprof_events::debug_as_display!(SelectError);
