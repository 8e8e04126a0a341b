//! Marks the lines of a function.
//!
//! A function begins with a frame, and each of its lines with a call that says so, on the line itself.
//! What is marked:
//!
//! * statements, and what a block evaluates to;
//! * the header of `for` and `while`, once more than the body runs;
//! * `else if`, the arms of a `match`, and operands of `&&` and `||` on lines of their own;
//! * methods on lines of their own, if what they are called on is computed;
//! * computed arguments, fields and elements on lines of their own, after which the line around them
//!   goes on;
//! * closures and async blocks of several lines, which have frames of their own.
//!
//! The rest (text inside of macro calls, patterns, operands) counts for the line around it. Functions
//! inside the function are none of its lines.
//!
//! A value is handed through a call only where it is computed: so nothing is moved that was borrowed
//! before, all temporaries live as long as they did, and types are inferred as before.

mod chain;
mod control;
mod expressions;
mod walk;

use std::path::Path;

use mlprof_events::source_hash;
use syn::spanned::Spanned;
use syn::{Block, Signature};

use super::edit::Edits;

/// The part of the root's module that frames are made of. It uses `wanted` of that module.
pub const TEMPLATE: &str = include_str!("template.rs");

/// Calls `LineSite::declare` when the program, or the library that the function is in, is loaded. It
/// stands in the function and so is there under the same conditions; a static is compiled also where
/// a generic function is not.
const DECLARATION: &str = "#[cfg(target_os = \"linux\")] #[used] #[allow(unsafe_code)] \
     #[unsafe(link_section = \".init_array\")] static __MLPROF_DECLARED: extern \"C\" fn() = \
     { extern \"C\" fn declare() { __MLPROF_LINES.declare() } declare };";

/// A function whose lines are profiled.
#[derive(Clone, Copy)]
pub struct LineFunction<'a> {
    /// Its path: `my_model::net::Net::forward`.
    pub name: &'a str,
    /// The file that the user wrote, as an absolute path.
    pub file: &'a Path,
    /// Its head.
    pub signature: &'a Signature,
    /// What it does.
    pub block: &'a Block,
    /// Where in the text the frame is put: behind the brace, and behind attributes of the body.
    pub start: usize,
}

impl std::fmt::Debug for LineFunction<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LineFunction").finish_non_exhaustive()
    }
}

/// Marks the lines of `function` in `source`, the text that it was parsed from. On Linux the program
/// tells of the function when it is loaded, so that it is known also if it never runs.
///
/// # Errors
///
/// Nothing is inserted if the function may run in the compiler (`const fn`); the text says so.
pub fn splice_lines(
    edits: &mut Edits,
    function: &LineFunction<'_>,
    source: &str,
) -> Result<(), String> {
    let LineFunction { name, signature, block, .. } = *function;
    if signature.constness.is_some() {
        return Err("a `const fn` may run in the compiler".to_owned());
    }
    let first_line = signature.span().start().line;
    let last_line = block.brace_token.span.close().end().line;
    let lines = source.lines().skip(first_line - 1).take(last_line + 1 - first_line);
    let file = function.file.display().to_string();
    let source_hash = source_hash(lines);
    let is_async = signature.asyncness.is_some();
    let (points, insertions) = walk::walk(source, block, is_async);
    let kind = if is_async { walk::ASYNC_CALL } else { walk::CALL };
    edits.insert(
        function.start,
        format!(
            " static __MLPROF_LINES: crate::__mlprof::LineSite = crate::__mlprof::LineSite::new(\
             {name:?}, {file:?}, {first_line}, {last_line}, {source_hash}, &{points:?}); {DECLARATION}{}",
            walk::frame(kind)
        ),
    );
    for insertion in insertions {
        match insertion {
            walk::Insertion::Before(offset, text) => edits.insert(offset, text),
            walk::Insertion::After(offset, text) => edits.close(offset, text),
        }
    }
    Ok(())
}
