//! Puts hooks into the source text of other people's crates, without moving a line.
//!
//! [`splice_crate`] reads a crate as rustc does, module by module, finds the functions that a
//! [`Selection`] chooses, and gives back the files whose text changed. A function begins with a call
//! of a macro that the crate's root file defines; what stands behind it is in `template/`.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod allocator;
pub mod edit;

mod attributes;
mod conditional;
mod context;
mod error;
mod files;
mod fingerprint;
mod foreign;
mod function;
mod generated;
mod hook;
mod insert;
mod insertion_points;
mod item_tokens;
mod items;
pub mod lines;
mod macros;
mod modules;
mod names;
mod outputs;
mod path;
mod pattern;
mod presets;
mod result;
mod root;
mod rules;
mod selection;
mod source;
mod suggestions;
mod tail_calls;
mod template;
mod text;

pub use error::{PatternError, SelectError};
pub use fingerprint::Fingerprint;
pub use modules::AllocatorHooks;
pub use pattern::Pattern;
pub use presets::{PRESETS, Preset};
pub use result::{
    FunctionKind, HookKind, LeftOut, SplicedCrate, SplicedFile, SplicedFunction, Unread,
};
pub use rules::{CrateRules, FunctionRule, RuleFile, TensorRule};
pub use selection::{Selection, SelectionBuilder};
pub use suggestions::near_misses;

use std::io;
use std::path::Path;

/// Returns whether a text consists of Rust's tokens.
#[must_use]
pub fn is_rust(text: &str) -> bool {
    text.parse::<proc_macro2::TokenStream>().is_ok()
}

/// Splices the crate whose root file is `root`, such as `src/lib.rs`. `crate_name` is the name that
/// rustc is given: with underscores.
///
/// Nothing is written; the caller puts the texts where rustc will read them. Modules are found by
/// their declarations, whether or not their `cfg` holds, and a file that is missing is passed over.
///
/// # Errors
///
/// If the root file cannot be read. Any other file that cannot be read or parsed is listed in
/// [`SplicedCrate::unread`] and stays as it is.
pub fn splice_crate(
    root: &Path,
    crate_name: &str,
    selection: &Selection,
) -> io::Result<SplicedCrate> {
    modules::splice(root, crate_name, selection, AllocatorHooks::None)
}

/// The same, with hooks in its allocator.
///
/// # Errors
///
/// As [`splice_crate`].
pub fn splice_crate_and_allocator(
    root: &Path,
    crate_name: &str,
    selection: &Selection,
    allocator: AllocatorHooks,
) -> io::Result<SplicedCrate> {
    modules::splice(root, crate_name, selection, allocator)
}
