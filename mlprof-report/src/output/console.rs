//! Console output: standard output for reports, standard error for warnings.

use std::io::{ErrorKind, Write};

use mlprof_events::files::{self, StandardStream};
use mlprof_events::forking::apart_from_forks;

/// Output streams of the program. Tests write into memory instead.
pub(super) struct Console<'streams> {
    stdout: Box<dyn Write + 'streams>,
    stderr: Box<dyn Write + 'streams>,
}

impl Console<'static> {
    pub(super) fn standard() -> Self {
        Self { stdout: Box::new(StandardStream::Output), stderr: Box::new(StandardStream::Error) }
    }

    /// Creates a console that writes everything to standard error.
    pub(super) fn standard_error() -> Self {
        Self { stdout: Box::new(StandardStream::Error), ..Self::standard() }
    }
}

impl<'streams> Console<'streams> {
    #[cfg(test)]
    pub(super) fn new(stdout: impl Write + 'streams, stderr: impl Write + 'streams) -> Self {
        Self { stdout: Box::new(stdout), stderr: Box::new(stderr) }
    }

    /// Prints a report. `print!` would panic on a closed pipe or if a redirection hits a full disk.
    /// This method ignores a closed pipe. For other errors, it prints a warning and the report on
    /// standard error.
    pub(super) fn print(&mut self, report: &str) {
        // No fork can happen during the write, so the stream's lock is free in a forked child.
        let printed = apart_from_forks(|| {
            self.stdout.write_all(report.as_bytes()).and_then(|()| self.stdout.flush())
        });
        match printed {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                self.warn(&format!(
                    "cannot print the profiler's report ({error}); the report \
                                    follows:"
                ));
                self.complain(report);
            }
            _ => {}
        }
    }

    /// Prints one line on standard error.
    pub(super) fn warn(&mut self, warning: &str) {
        self.complain(&format!("warning: {warning}\n"));
    }

    fn complain(&mut self, text: &str) {
        // If standard error also fails, no output stream is left, so errors are ignored.
        apart_from_forks(|| {
            let _ = self.stderr.write_all(text.as_bytes());
            let _ = self.stderr.flush();
        });
    }
}

/// Prints a line on standard error like `eprintln!`. If standard error is full or closed, the error
/// is ignored. It neither panics nor ends the process by a signal.
pub fn say(line: impl std::fmt::Display) {
    // A single write keeps the lines of several processes apart.
    let line = format!("{line}\n");
    apart_from_forks(|| {
        let _ = files::print(StandardStream::Error, line.as_bytes());
    });
}
