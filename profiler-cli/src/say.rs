//! What the command says besides its results.

/// A line for the user, on standard error; cargo hands it on, as it is no message of a compiler.
pub(crate) fn say(text: &str) {
    profiler_report::output::say(format_args!("mlprof: {text}"));
}
