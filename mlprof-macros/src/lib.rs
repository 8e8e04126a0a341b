//! The attribute [`macro@profiled`], which measures functions and methods.
//!
//! Programs use it as `mlprof_core::prelude::profiled`. Its expansion uses the recorder in
//! `mlprof-core`.

#![cfg_attr(docsrs, feature(doc_cfg))]
// This crate must not print, because `println!` and `eprintln!` panic if the stream has no reader.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod expand;
mod options;
mod recorder_path;

use proc_macro::TokenStream;

/// Measures every call of a function, a method, or all functions of an `impl` block, while an
/// active profiler requests functions (`Interest::FUNCTIONS`).
///
/// *Names*: a function has its own name. In an `impl` block with the attribute, it is
/// `Type::method`. On a single method the attribute cannot see the type, so the name is only that
/// of the method. Put the attribute on the block instead, or specify a name. All instances of a
/// generic function are one row. Reports distinguish functions with the same name by `file:line`.
///
/// *Measured time*: from the first statement until the locals are dropped, on every exit path (an
/// early return, `?`, a panic). For an `async fn`, only the time of its polls counts, and each poll
/// is one call. Its future is slightly larger, because it contains the original one. A function
/// that *returns* a future without being `async` is measured only until it returns.
///
/// *Cost*: one relaxed load per call (per poll) while no such profiler is active.
///
/// # Options
///
/// - `#[profiled(name = "…")]`: on a function, its full name; on an `impl` block, the prefix that
///   replaces the type.
/// - `#[profiled(skip)]`: excludes a method of an `impl` block.
/// - `#[profiled(crate = path)]`: path of `mlprof_core`, such as `crate =
///   my_framework::mlprof_core`. It is needed if the program depends neither on `mlprof_core` nor
///   on an mlprof plugin, under any name.
///
/// Put the attribute above others that rewrite the function, such as `#[async_trait]`.
///
/// # Errors
///
/// Reports a compile error for:
///
/// - a `const fn`, which may run in the compiler, where no clock exists
/// - a function without a body
/// - an item that is neither a function nor an `impl` block
/// - an unknown option
#[proc_macro_attribute]
pub fn profiled(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(options.into(), item.into()).into()
}
