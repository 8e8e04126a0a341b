//! What the command says besides its results.

use std::path::Path;

use profiler_analysis::Trace;

/// A line for the user, on standard error; cargo hands it on, as it is no message of a compiler.
pub(crate) fn say(text: &str) {
    profiler_report::output::say(format_args!("mlprof: {text}"));
}

/// Says that the end of a trace is missing, if it is.
pub(crate) fn cut_short(trace: &Trace, file: &Path) {
    if let Some(reason) = &trace.info.cut_short {
        profiler_report::output::say(format_args!(
            "note: the end of {} is missing: {reason}; what came before is converted",
            file.display()
        ));
    }
}
