//! Source file during instrumentation.

use std::path::PathBuf;

use super::edit::Edits;
use super::insertion_points::Places;

/// Source file with its pending edits.
pub(super) struct Source {
    pub path: PathBuf,
    pub text: String,
    pub edits: Edits,
    pub places: Places,
}
