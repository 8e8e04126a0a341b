//! What the command says besides its results.

use std::io::{self, Write};

/// A line for the user, on standard error; cargo hands it on, as it is no message of a compiler.
pub(crate) fn say(text: &str) {
    // If nobody listens, there is nobody to tell.
    let _ = writeln!(io::stderr(), "mlprof: {text}");
}
