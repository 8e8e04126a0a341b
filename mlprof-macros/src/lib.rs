//! The attribute [`macro@profiled`]: measures functions and methods.
//!
//! Programs reach it as `mlprof_core::prelude::profiled`; the recorder it talks to is in
//! `mlprof-core`.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Nothing is printed here: `println!` and `eprintln!` panic where nobody reads any more.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod expand;
mod options;
mod recorder_path;

use proc_macro::TokenStream;

/// Measures every call of a function, a method, or all functions of an `impl` block, while a
/// profiler is active that wants functions (`Interest::FUNCTIONS`).
///
/// *Names*: a function is called what it is called; in an `impl` block with the attribute,
/// `Type::method`. On a single method the attribute cannot see the type, so the name is the
/// method's alone: put the attribute on the block, or give a name. All instances of a generic
/// function are one row. Reports tell functions of one name apart by `file:line`.
///
/// *What is measured*: from the first statement until the locals are dropped, on every way out (an
/// early return, `?`, a panic). Of an `async fn` only the time in which it is being polled, each
/// poll being one call; its future is a little larger, since it holds the original one. A function
/// that *returns* a future without being `async` is measured only until it returns.
///
/// *Cost*: one relaxed load per call (per poll) when no such profiler is active.
///
/// # Options
///
/// - `#[profiled(name = "…")]`: on a function, its whole name; on an `impl` block, what stands in
///   place of the type.
/// - `#[profiled(skip)]`: leaves a method of an `impl` block out.
/// - `#[profiled(crate = path)]`: where to find `mlprof_core` when the program depends neither on
///   it nor on a plugin of mlprof, by whatever name, such as `crate = my_framework::mlprof_core`.
///
/// Put the attribute above others that rewrite the function, such as `#[async_trait]`.
///
/// # Errors
///
/// Compile errors for a `const fn` (it may run in the compiler, which has no clock), for functions
/// without a body, for items that are neither function nor `impl` block, and for unknown options.
#[proc_macro_attribute]
pub fn profiled(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(options.into(), item.into()).into()
}
