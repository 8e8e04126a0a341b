//! An error with its causes, in one line.

use std::error::Error;
use std::fmt;

/// An error that prints itself and its causes in one line.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'error>(pub &'error (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(self.0, formatter)
    }
}

/// Writes `error` and its sources, each after a colon. A source whose text the line already
/// contains is left out, as errors of other crates often repeat theirs.
///
/// # Errors
///
/// The errors of the formatter.
pub fn write(error: &(dyn Error + 'static), formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut line = error.to_string();
    formatter.write_str(&line)?;
    let mut next = error.source();
    while let Some(source) = next {
        let text = source.to_string();
        if !line.contains(&text) {
            write!(formatter, ": {text}")?;
            line.push_str(&text);
        }
        next = source.source();
    }
    Ok(())
}
