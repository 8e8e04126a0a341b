//! A file of a crate while hooks are put into it.

use std::path::PathBuf;

use super::edit::Edits;
use super::insertion_points::Places;

/// A file that was read, and what is to be put into it.
pub(super) struct Source {
    pub path: PathBuf,
    pub text: String,
    pub edits: Edits,
    pub places: Places,
}
