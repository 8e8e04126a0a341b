//! The Simple profiler with bytes read and written beside every action's time.

mod counters;
mod table;

use std::collections::HashMap;

use self::table::{IoSnapshot, IoTable};
use super::{Layout, SimpleProfiler};
use crate::recorder::overhead::seconds_per_scope;
use crate::recorder::{Part, Recorder};
use crate::report::simple::{ActionStatistics, IoStatistics};
use crate::report::{Report, SimpleReport, detailed};
use crate::{Action, NeverStarted, Output, Profiler, RunContext, Stage, startup};

/// A [`SimpleProfiler`] that also asks the operating system, at every start and stop, how many
/// bytes the thread has read and written. Made by [`SimpleProfiler::measure_io`].
///
/// The report has the [detailed](SimpleProfiler::detailed) layout and in it a table of bytes; in
/// JSON and in [`snapshot`](Self::snapshot) every row has its
/// [`io`](crate::report::simple::ActionStatistics::io).
///
/// *What is counted*: see [`IoStatistics`]. The counters are Linux's own of each thread
/// (`/proc/thread-self/io`), so what an action's thread hands to other threads or to an
/// asynchronous interface is theirs. A file that is read through a memory map appears, when it was
/// not in the page cache, as bytes from storage and never as bytes read. What the profiler itself
/// reads to know all this is subtracted.
///
/// *Cost*: a system call at each start and each stop, 2 to 6 µs for the two of them together, a
/// hundred times what a scope costs otherwise: for actions of some 100 µs and more. It is not in
/// the action's own time, but in that of the action around it. One open file per thread, until the
/// thread ends.
///
/// *How it fails*: on other systems, without `/proc`, with a kernel that does not count
/// (`TASK_IO_ACCOUNTING`) or when no more files can be opened, rows have no bytes and the report a
/// note that says why.
///
/// ```
/// use profiler_core::{Profiler, ProfilerExt, SimpleProfiler};
///
/// let profiler = SimpleProfiler::new().measure_io();
/// {
///     let _scope = profiler.profile("read_settings");
///     let _ = std::fs::read("Cargo.toml");
/// }
/// profiler.describe();
/// ```
pub struct SimpleIoProfiler {
    simple: SimpleProfiler,
    /// Beside the profiler's own recorder, with the same sessions and threads.
    recorder: Recorder<IoTable>,
}

impl SimpleProfiler {
    /// Measures the bytes that every action reads and writes, too, and shows them in the
    /// [detailed](Self::detailed) layout; at some cost, see [`SimpleIoProfiler`].
    #[must_use]
    pub fn measure_io(self) -> SimpleIoProfiler {
        SimpleIoProfiler::around(self)
    }
}

impl SimpleIoProfiler {
    fn around(simple: SimpleProfiler) -> Self {
        let simple = SimpleProfiler { layout: Layout::Detailed, ..simple };
        Self { simple, recorder: Recorder::aside() }
    }

    /// The numbers so far; as [`SimpleProfiler::snapshot`].
    pub fn snapshot(&self) -> SimpleReport {
        let mut report = self.simple.snapshot();
        let collected = self.recorder.collect();
        fill_in(&mut report.actions, &collected.parts);
        for group in collected.by_thread_name() {
            let threads = report.threads.iter_mut();
            for thread in threads.filter(|thread| thread.thread == group.thread) {
                fill_in(&mut thread.actions, group.parts.iter().copied());
            }
        }
        let mut problems = collected.parts.iter().filter_map(|part| part.snapshot.problem.as_ref());
        report.header.notes.extend(problems.next().cloned());
        let seconds_per_scope = &mut report.header.overhead.seconds_per_scope;
        *seconds_per_scope = self::seconds_per_scope(|| Self::around(SimpleProfiler::aside()));
        report
    }
}

/// Gives each row the bytes of its action.
fn fill_in<'parts>(
    rows: &mut [ActionStatistics],
    parts: impl IntoIterator<Item = &'parts Part<IoSnapshot>>,
) {
    let mut sums: HashMap<(Option<Stage>, &str), IoStatistics> = HashMap::new();
    for part in parts {
        for (action, io) in &part.snapshot.actions {
            sums.entry((part.sub_stage, action.name())).or_default().add(io);
        }
    }
    for row in rows {
        row.io = sums.get(&(row.sub_stage, row.action.as_str())).copied();
    }
}

impl Profiler for SimpleIoProfiler {
    fn start(&self, action: Action) {
        // Start-up is read from files, once: before the counters, not inside the first action.
        startup::note_first_action();
        self.recorder.start(action);
        self.simple.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        let stopped = self.simple.stop(action);
        // It has the same scopes open, so it has nothing else to say.
        let _ = self.recorder.stop(action);
        stopped
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        self.recorder.begin(stage);
        self.simple.setup(stage, run);
    }

    fn teardown(&self, stage: Option<Stage>) {
        self.simple.teardown(stage);
        self.recorder.end(stage);
    }

    fn summary(&self) -> String {
        detailed::paint(&self.snapshot())
    }

    fn report(&self) -> Option<Report> {
        Some(Report::Simple(self.snapshot()))
    }

    fn output(&self) -> Option<&Output> {
        self.simple.output()
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests;
