//! The Simple profiler with what the operating system counts beside every action's time: bytes read
//! and written, CPU time and switches.

mod cpu;
mod io;
mod reading;
mod table;

use std::collections::HashMap;

use self::reading::Reading;
use self::table::{CountersSnapshot, CountersTable};
use super::{Layout, SimpleProfiler, settings};
use crate::output::RenderedReport;
use crate::profiler::{Inner, Internals};
use crate::recorder::overhead::seconds_per_scope;
use crate::recorder::{Part, Recorder};
use crate::report::simple::ActionStatistics;
use crate::report::{Report, Setting, SimpleReport};
use crate::{Action, NeverStarted, Profiler, RunContext, Stage, startup};

/// A [`SimpleProfiler`] that also asks the operating system, at every start and stop, what it has
/// counted for the thread: with `IO` bytes read and written, with `CPU` CPU time and switches. Made
/// by [`SimpleProfiler::measure_io`] and [`SimpleProfiler::measure_cpu`], or both one after the
/// other.
///
/// The report has the [detailed](SimpleProfiler::detailed) layout and in it a table of each kind; in
/// JSON and in [`snapshot`](Self::snapshot) every row has its
/// [`io`](crate::report::simple::ActionStatistics::io) and
/// [`cpu`](crate::report::simple::ActionStatistics::cpu).
///
/// # Bytes
///
/// *What is counted*: see [`IoStatistics`](crate::report::simple::IoStatistics). The counters are
/// Linux's own of each thread (`/proc/thread-self/io`), so what an action's thread hands to other
/// threads or to an asynchronous interface is theirs. A file that is read through a memory map
/// appears, when it was not in the page cache, as bytes from storage and never as bytes read. What
/// the profiler itself reads to know all this is subtracted.
///
/// *Cost*: 2 to 6 µs for start and stop together, a hundred times what a scope costs otherwise: for
/// actions of some 100 µs and more. One open file per thread, until the thread ends.
///
/// # CPU time
///
/// *What is counted*: see [`CpuStatistics`](crate::report::simple::CpuStatistics). CPU time of the
/// thread and of the whole process (`CLOCK_THREAD_CPUTIME_ID`, `CLOCK_PROCESS_CPUTIME_ID`), and
/// switches of the thread (`getrusage`). Beside an action's wall time they tell working from
/// waiting: what of it was not CPU time of its thread, the thread waited, for a device, a file, a
/// lock, another thread or a core. The process's time says whether other threads worked meanwhile.
/// It is one number for all threads, so it says something of actions that do not run side by side:
/// of two that do, each has the other one's time in its own.
///
/// *Cost*: six system calls, about 1.7 µs for start and stop together and some 20 ns more for each
/// thread that the process has. Some 0.4 µs of it are in the action's own CPU time, in its first
/// call 2 µs, and in the first call of a thread 10 µs: for actions of some 20 µs and more.
///
/// # Both
///
/// The cost is not in the action's own time, but in that of the action around it.
///
/// *How it fails*: on other systems, without `/proc`, with a kernel that does not count
/// (`TASK_IO_ACCOUNTING`) or when no more files can be opened, rows lack what is not known and the
/// report has a note that says why.
///
/// ```
/// use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
///
/// let profiler = SimpleProfiler::new().measure_cpu().measure_io();
/// {
///     let _scope = profiler.profile("read_settings");
///     let _ = std::fs::read("Cargo.toml");
/// }
/// profiler.describe();
/// # let report = profiler.snapshot();
/// # let row = report.actions.iter().find(|row| row.action == "read_settings").expect("a row");
/// # assert!(row.waiting_seconds().is_some() || !cfg!(target_os = "linux"));
/// ```
pub struct SimpleCountersProfiler<const IO: bool, const CPU: bool> {
    simple: SimpleProfiler,
    /// Beside the profiler's own recorder, with the same sessions and threads.
    recorder: Recorder<CountersTable<IO, CPU>>,
}

/// A [`SimpleProfiler`] with bytes read and written.
pub type SimpleIoProfiler = SimpleCountersProfiler<true, false>;

impl SimpleProfiler {
    /// Measures the bytes that every action reads and writes, too, and shows them in the
    /// [detailed](Self::detailed) layout; at some cost, see [`SimpleCountersProfiler`].
    #[must_use]
    pub fn measure_io(self) -> SimpleIoProfiler {
        SimpleCountersProfiler::around(self)
    }

    /// Measures the CPU time of every action, too, which tells working from waiting, and shows it in
    /// the [detailed](Self::detailed) layout; at some cost, see [`SimpleCountersProfiler`].
    #[must_use]
    pub fn measure_cpu(self) -> SimpleCountersProfiler<false, true> {
        SimpleCountersProfiler::around(self)
    }
}

impl<const IO: bool, const CPU: bool> SimpleCountersProfiler<IO, CPU> {
    fn around(simple: SimpleProfiler) -> Self {
        let simple = SimpleProfiler { layout: Layout::Detailed, ..simple };
        Self { simple, recorder: Recorder::aside() }
    }

    crate::output_settings::output_settings!("simple", "", simple.output);

    /// Measures bytes, too: see [`SimpleProfiler::measure_io`]. What was recorded until now is
    /// without them.
    #[must_use]
    pub fn measure_io(self) -> SimpleCountersProfiler<true, CPU> {
        SimpleCountersProfiler::around(self.simple)
    }

    /// Measures CPU time, too: see [`SimpleProfiler::measure_cpu`]. What was recorded until now is
    /// without it.
    #[must_use]
    pub fn measure_cpu(self) -> SimpleCountersProfiler<IO, true> {
        SimpleCountersProfiler::around(self.simple)
    }

    /// Whether device time is measured: see [`SimpleProfiler::measure_devices`].
    #[must_use]
    pub fn measure_devices(mut self, measures: bool) -> Self {
        self.simple = self.simple.measure_devices(measures);
        self
    }

    /// Has no effect: counters are shown in the [detailed](SimpleProfiler::detailed) layout alone.
    /// It is here so that settings may stand in any order.
    #[must_use]
    pub fn short(self) -> Self {
        self
    }

    /// Has no effect: the layout is the [detailed](SimpleProfiler::detailed) one already. It is
    /// here so that settings may stand in any order.
    #[must_use]
    pub fn detailed(self) -> Self {
        self
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
        for problem in collected.parts.iter().flat_map(|part| &part.snapshot.problems) {
            if !report.header.notes.contains(problem) {
                report.header.notes.push(problem.clone());
            }
        }
        let seconds_per_scope = &mut report.header.overhead.seconds_per_scope;
        *seconds_per_scope = self::seconds_per_scope(|| Self::around(SimpleProfiler::aside()));
        report.header.settings = settings(IO, CPU);
        if self.simple.devices.is_some() {
            report.header.settings.push(Setting::recorded("device time", true));
        }
        report
    }
}

/// Gives each row what was counted in its action.
fn fill_in<'parts>(
    rows: &mut [ActionStatistics],
    parts: impl IntoIterator<Item = &'parts Part<CountersSnapshot>>,
) {
    let mut sums: HashMap<(Option<Stage>, &str), Reading> = HashMap::new();
    for part in parts {
        for (action, counted) in &part.snapshot.actions {
            sums.entry((part.sub_stage, action.name())).or_default().add(counted);
        }
    }
    for row in rows {
        let counted = sums.get(&(row.sub_stage, row.action.as_str()));
        row.io = counted.and_then(|counted| counted.io);
        row.cpu = counted.and_then(|counted| counted.cpu).map(|cpu| cpu.statistics());
    }
}

impl<const IO: bool, const CPU: bool> Profiler for SimpleCountersProfiler<IO, CPU> {
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
        self.simple.layout.paint(&self.snapshot())
    }

    fn report(&self) -> Option<Report> {
        Some(Report::Simple(self.snapshot()))
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl<const IO: bool, const CPU: bool> Internals for SimpleCountersProfiler<IO, CPU> {
    fn wrapped(&self) -> Option<&dyn Profiler> {
        Some(&self.simple)
    }

    fn render(&self) -> RenderedReport {
        self.simple.layout.render(self.snapshot())
    }
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests;
