//! What can be wrong with a selection.

use std::path::PathBuf;

/// A pattern that cannot be meant.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern `{pattern}` {reason}")]
pub struct PatternError {
    /// As it was given.
    pub pattern: String,
    /// What is wrong with it, to be read after it.
    pub reason: &'static str,
}

mlprof_events::debug_as_display!(PatternError);

/// A selection that cannot be made.
#[derive(thiserror::Error)]
pub enum SelectError {
    /// A pattern of functions cannot be meant.
    #[error(
        "{0}\n\
         write the path of a function, `my_model::net::Net::forward`, with `*` for anything within \
         a name and `**` for any number of modules; `my_model` alone and `my_model::*` are all \
         functions of a crate"
    )]
    Pattern(#[from] PatternError),
    /// There is no preset of this name, and no file.
    #[error(
        "there are no ops called `{name}`: the presets are {}; \
         for another framework give the path of a rule file (`./my-framework.toml`)",
        .known.join(", ")
    )]
    UnknownPreset {
        /// What was asked for.
        name: String,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// A rule file cannot be read.
    #[error("cannot read the rule file {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// A rule file is wrong.
    #[error("the rule file {} is wrong: {reason}", .path.display())]
    Rules {
        /// The file.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
}

mlprof_events::debug_as_display!(SelectError);
