//! Periodic writing of the report during the run.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use super::LineProfiler;
use crate::output::{say, write_file};
use crate::report::Report;
use mlprof_events::own_thread;

/// Writes the report of a [`LineProfiler`] periodically until dropped. The file always holds the
/// last complete report, even after the process was killed.
#[derive(Debug)]
#[must_use = "the file is written only until this is dropped"]
pub struct PeriodicWriter {
    /// Dropping the sender stops the thread.
    until: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PeriodicWriter {
    /// Writes `path` as JSON every `interval`, which is at least one millisecond. The first write
    /// happens after the first interval. Missing directories are created. A write error is printed
    /// once on standard error, and later writes are still attempted.
    ///
    /// *Cost*: one thread, which reads the source files and the tallies for each write.
    ///
    /// # Errors
    ///
    /// Returns an error if the thread cannot be started.
    pub fn start(
        profiler: Arc<LineProfiler>,
        path: impl Into<PathBuf>,
        interval: Duration,
    ) -> io::Result<Self> {
        let (until, end) = mpsc::channel();
        let path = path.into();
        let interval = interval.max(Duration::from_millis(1));
        let work = move || {
            let mut has_warned = false;
            while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = write(&profiler, &path)
                    && !std::mem::replace(&mut has_warned, true)
                {
                    let path = path.display();
                    say(format_args!("mlprof: cannot write {path}: {error}. (Reported once.)"));
                }
            }
        };
        let thread = own_thread::spawn("mlprof-lines", work)?;
        Ok(Self { until: Some(until), thread: Some(thread) })
    }
}

fn write(profiler: &LineProfiler, path: &Path) -> io::Result<()> {
    let json = Report::Lines(profiler.report()).to_json()?;
    write_file(path, |file| io::Write::write_all(file, json.as_bytes()))
}

impl Drop for PeriodicWriter {
    /// Stops the thread and waits for it, so that no write happens afterwards.
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported when it happened.
            let _ = thread.join();
        }
    }
}
