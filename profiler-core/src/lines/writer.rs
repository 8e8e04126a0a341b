//! Writing the report again and again while the program runs.

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

/// Writes the report of a [`LineProfiler`] until it is dropped. A reader of the file finds the last
/// whole report, also after the process was killed.
#[derive(Debug)]
#[must_use = "the file is written only until this is dropped"]
pub struct PeriodicWriter {
    /// Its end is the thread's.
    until: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl PeriodicWriter {
    /// Writes `path` every `interval` (at least a millisecond), as JSON, beginning after the first
    /// one. Directories are made if need be. A file that cannot be written is said once on standard
    /// error, and tried again.
    ///
    /// *Cost*: a thread of its own, which reads the source files and the tallies every time.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
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
                    say(format_args!("mlprof: cannot write {path}: {error}. (Said once.)"));
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
    /// Waits until the thread has ended: nothing is written from here on.
    fn drop(&mut self) {
        drop(self.until.take());
        if let Some(thread) = self.thread.take() {
            // If it has panicked, that was said where it did.
            let _ = thread.join();
        }
    }
}
