//! Messages of the command to the user, apart from results.

use std::path::Path;
use std::process::ExitCode;

use mlprof_analysis::Trace;

use crate::traces;

/// Prints a line for the user on standard error. Cargo forwards it, because it is not a JSON
/// message of the compiler.
pub(crate) fn say(text: &str) {
    mlprof_report::output::say(format_args!("mlprof: {text}"));
}

/// Prints notes about missing parts of a trace. Returns the exit code for the command.
pub(crate) fn losses(trace: &Trace, file: &Path) -> ExitCode {
    if let Some(reason) = &trace.info.cut_short {
        mlprof_report::output::say(format_args!(
            "note: the end of {} is missing: {reason}; the events before it are converted",
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
