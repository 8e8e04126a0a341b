//! Instruments the lines of a function.
//!
//! A function begins by opening a frame, and each of its lines reports itself by a call on that
//! line. These parts are instrumented:
//!
//! * statements, and the value of a block;
//! * the header of `for` and `while`, which is evaluated once more than the body;
//! * `else if`, the arms of a `match`, and operands of `&&` and `||` on their own lines;
//! * methods on their own lines, if the receiver is a computed value;
//! * computed arguments, fields and elements on their own lines, after which the surrounding line
//!   continues;
//! * closures and async blocks that span several lines, which have their own frames.
//!
//! All other code (tokens of macro calls, patterns, operands) counts for the surrounding line.
//! Functions nested in the function are not included.
//!
//! Only computed values are passed through a call. Earlier borrows are therefore not moved,
//! temporaries live as long as before, and type inference is unchanged.

mod chain;
mod control;
mod expressions;
mod walk;

use std::path::Path;

use mlprof_events::source_hash;
use syn::spanned::Spanned;
use syn::{Block, Signature};

use super::edit::Edits;

/// Part of the root module that defines frames. It uses the function `wanted` of that module.
pub const TEMPLATE: &str = include_str!("template.rs");

/// Text that calls `LineSite::declare` when the program or the function's library is loaded. It is
/// inside the function, so the same `cfg` conditions apply. A static is compiled even if a generic
/// function is never instantiated.
const DECLARATION: &str = "#[cfg(target_os = \"linux\")] #[used] #[allow(unsafe_code)] \
     #[unsafe(link_section = \".init_array\")] static __MLPROF_DECLARED: extern \"C\" fn() = \
     { extern \"C\" fn declare() { __MLPROF_LINES.declare() } declare };";

/// Function with line profiling.
#[derive(Clone, Copy)]
pub struct LineFunction<'a> {
    /// Path of the function: `my_model::net::Net::forward`.
    pub name: &'a str,
    /// Absolute path of the user's original file.
    pub file: &'a Path,
    /// Signature of the function.
    pub signature: &'a Signature,
    /// Body of the function.
    pub block: &'a Block,
    /// Offset at which the frame is inserted: after the opening brace and the inner attributes of
    /// the body.
    pub start: usize,
}

impl std::fmt::Debug for LineFunction<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LineFunction").finish_non_exhaustive()
    }
}

/// Instruments the lines of `function` in `source`, the text from which it was parsed. On Linux,
/// the program registers the function when it is loaded, so that functions that never run are also
/// known.
///
/// # Errors
///
/// Returns a message if the function may run in the compiler (`const fn`). The text then stays
/// unchanged.
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
