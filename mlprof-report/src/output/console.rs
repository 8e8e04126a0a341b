//! The console: standard output for reports, standard error for what went wrong.

use std::io::{ErrorKind, Write};

use mlprof_events::files::{self, StandardStream};
use mlprof_events::forking::apart_from_forks;

/// Where a program's output goes; in tests, into memory.
pub(super) struct Console<'streams> {
    stdout: Box<dyn Write + 'streams>,
    stderr: Box<dyn Write + 'streams>,
}

impl Console<'static> {
    pub(super) fn standard() -> Self {
        Self { stdout: Box::new(StandardStream::Output), stderr: Box::new(StandardStream::Error) }
    }

    /// Everything to standard error.
    pub(super) fn standard_error() -> Self {
        Self { stdout: Box::new(StandardStream::Error), ..Self::standard() }
    }
}

impl<'streams> Console<'streams> {
    #[cfg(test)]
    pub(super) fn new(stdout: impl Write + 'streams, stderr: impl Write + 'streams) -> Self {
        Self { stdout: Box::new(stdout), stderr: Box::new(stderr) }
    }

    /// Prints a report. `print!` would panic where this does not: on a pipe that nobody reads any
    /// more, and on a full disk behind a redirection. Of the latter standard error hears, and gets
    /// the report.
    pub(super) fn print(&mut self, report: &str) {
        // The standard library's lock of the stream is free in a forked child.
        let printed = apart_from_forks(|| {
            self.stdout.write_all(report.as_bytes()).and_then(|()| self.stdout.flush())
        });
        match printed {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                self.warn(&format!("cannot print the profiler's report ({error}); here it is:"));
                self.complain(report);
            }
            _ => {}
        }
    }

    /// One line on standard error.
    pub(super) fn warn(&mut self, warning: &str) {
        self.complain(&format!("warning: {warning}\n"));
    }

    fn complain(&mut self, text: &str) {
        // If not even standard error works there is nobody left to tell.
        apart_from_forks(|| {
            let _ = self.stderr.write_all(text.as_bytes());
            let _ = self.stderr.flush();
        });
    }
}

/// A line on standard error, as `eprintln!` writes it; but where that is full or closed, nobody is left
/// to tell, which is no reason to panic, nor to end the process by a signal.
pub fn say(line: impl std::fmt::Display) {
    // In one write, so that lines of several processes do not mix.
    let line = format!("{line}\n");
    apart_from_forks(|| {
        let _ = files::print(StandardStream::Error, line.as_bytes());
    });
}
