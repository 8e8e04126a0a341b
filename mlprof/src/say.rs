//! What the command says besides its results.

use std::path::Path;
use std::process::ExitCode;

use mlprof_analysis::Trace;

use crate::traces;

/// A line for the user, on standard error; cargo hands it on, as it is no message of a compiler.
pub(crate) fn say(text: &str) {
    mlprof_report::output::say(format_args!("mlprof: {text}"));
}

/// Prints what of a trace is missing, if something is. Returns the status that the command ends
/// with.
pub(crate) fn losses(trace: &Trace, file: &Path) -> ExitCode {
    if let Some(reason) = &trace.info.cut_short {
        mlprof_report::output::say(format_args!(
            "note: the end of {} is missing: {reason}; what came before is converted",
            file.display()
        ));
    }
    if trace.info.not_understood > 0 {
        mlprof_report::output::say(format_args!(
            "note: {} of {} events of {} are not converted: {}",
            trace.info.not_understood,
            trace.info.events,
            file.display(),
            trace.info.notes.join("; ")
        ));
    }
    traces::end_after_losses(trace, file, "converted").unwrap_or(ExitCode::SUCCESS)
}
