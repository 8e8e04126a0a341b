//! Inserts hooks into the source of other crates, without changing line numbers.
//!
//! [`splice_crate`] reads a crate module by module, as rustc does. It finds the functions that a
//! [`Selection`] chooses, and returns the changed files. Each of these functions begins with calls
//! into a module that is added to the crate's root file. The texts of that module are in
//! `template/`.

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

/// Returns `true` if the text consists of Rust tokens.
#[must_use]
pub fn is_rust(text: &str) -> bool {
    text.parse::<proc_macro2::TokenStream>().is_ok()
}

/// Instruments the crate with the root file `root`, such as `src/lib.rs`. `crate_name` is the name
/// that rustc receives, with underscores.
///
/// No file is written; the caller must place the texts where rustc reads them. Modules are found by
/// their declarations, even if their `cfg` is false. Missing files are skipped.
///
/// # Errors
///
/// Returns an error if the root file cannot be read. Other files that cannot be read or parsed are
/// listed in [`SplicedCrate::unread`] and stay unchanged.
pub fn splice_crate(
    root: &Path,
    crate_name: &str,
    selection: &Selection,
) -> io::Result<SplicedCrate> {
    modules::splice(root, crate_name, selection, AllocatorHooks::None)
}

/// Instruments a crate like [`splice_crate`], and adds hooks to its allocator.
///
/// # Errors
///
/// Returns an error if the root file cannot be read.
pub fn splice_crate_and_allocator(
    root: &Path,
    crate_name: &str,
    selection: &Selection,
    allocator: AllocatorHooks,
) -> io::Result<SplicedCrate> {
    modules::splice(root, crate_name, selection, allocator)
}
