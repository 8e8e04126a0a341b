//! The Simple profiler extended with counters of the operating system for each action: bytes read
//! and written, CPU time and context switches.

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

/// A [`SimpleProfiler`] that also reads the operating system's counters of the thread at every
/// start and stop. `IO` enables bytes read and written, `CPU` enables CPU time and context
/// switches. [`SimpleProfiler::measure_io`] and [`SimpleProfiler::measure_cpu`] return this type,
/// and both can be combined.
///
/// The report uses the [detailed](SimpleProfiler::detailed) layout with one more table for each
/// kind of counter. In JSON and in [`snapshot`](Self::snapshot) every row has its
/// [`io`](crate::report::simple::ActionStatistics::io) and
/// [`cpu`](crate::report::simple::ActionStatistics::cpu).
///
/// # Bytes
///
/// *Counted values*: see [`IoStatistics`](crate::report::simple::IoStatistics). The counters are
/// those of each Linux thread (`/proc/thread-self/io`). Work that an action hands to other threads
/// or to an asynchronous interface is therefore not counted for the action. A file read through a
/// memory map appears as bytes from storage if it was not in the page cache, and never as bytes
/// read. The profiler subtracts the bytes of its own readings.
///
/// *Cost*: 2 to 6 µs for start and stop together, a hundred times the usual cost of a scope. It
/// suits actions of about 100 µs and more. Each thread keeps one file open until it ends.
///
/// # CPU time
///
/// *Counted values*: see [`CpuStatistics`](crate::report::simple::CpuStatistics). These are the CPU
/// times of the thread and of the whole process (`CLOCK_THREAD_CPUTIME_ID`,
/// `CLOCK_PROCESS_CPUTIME_ID`) and the thread's context switches (`getrusage`). Together with an
/// action's wall time they separate working from waiting. During wall time that is not CPU time of
/// its thread, the thread waited for a device, a file, a lock, another thread or a core.
///
/// The process's CPU time shows if other threads worked meanwhile. It is one number for all
/// threads, so it is meaningful only for actions that do not overlap. If two actions overlap, each
/// includes the CPU time of the other.
///
/// *Cost*: six system calls, about 1.7 µs for start and stop together, plus about 20 ns for each
/// thread of the process. About 0.4 µs of it is part of the action's own CPU time. It is 2 µs in an
/// action's first call and 10 µs in the first call of a thread. CPU times suit actions of about 20
/// µs and more.
///
/// # Both
///
/// The cost is not part of the action's own time but of the time of the enclosing action.
///
/// *Failure*: counters are unavailable on systems other than Linux, without `/proc`, with a kernel
/// that does not count (`TASK_IO_ACCOUNTING`), or when no more files can be opened. Rows then lack
/// the unknown values, and a note in the report gives the reason.
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
    /// Recorder for the counters. It has the same sessions and threads as the Simple profiler's own
    /// recorder.
    recorder: Recorder<CountersTable<IO, CPU>>,
}

/// A [`SimpleProfiler`] that also measures bytes read and written.
pub type SimpleIoProfiler = SimpleCountersProfiler<true, false>;

impl SimpleProfiler {
    /// Measures also the bytes that every action reads and writes, and shows them in the
    /// [detailed](Self::detailed) layout. See [`SimpleCountersProfiler`] for the cost.
    #[must_use]
    pub fn measure_io(self) -> SimpleIoProfiler {
        SimpleCountersProfiler::around(self)
    }

    /// Measures also the CPU time of every action, which separates working from waiting. Shows it
    /// in the [detailed](Self::detailed) layout. See [`SimpleCountersProfiler`] for the cost.
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

    /// Measures also bytes; see [`SimpleProfiler::measure_io`]. Data recorded before this call has
    /// no byte counts.
    #[must_use]
    pub fn measure_io(self) -> SimpleCountersProfiler<true, CPU> {
        SimpleCountersProfiler::around(self.simple)
    }

    /// Measures also CPU time; see [`SimpleProfiler::measure_cpu`]. Data recorded before this call
    /// has no CPU times.
    #[must_use]
    pub fn measure_cpu(self) -> SimpleCountersProfiler<IO, true> {
        SimpleCountersProfiler::around(self.simple)
    }

    /// Enables or disables the measurement of device time; see [`SimpleProfiler::measure_devices`].
    #[must_use]
    pub fn measure_devices(mut self, measures: bool) -> Self {
        self.simple = self.simple.measure_devices(measures);
        self
    }

    /// Has no effect, because counters are shown only in the [detailed](SimpleProfiler::detailed)
    /// layout. The method exists so that settings may be called in any order.
    #[must_use]
    pub fn short(self) -> Self {
        self
    }

    /// Has no effect, because the layout already is the [detailed](SimpleProfiler::detailed) one.
    /// The method exists so that settings may be called in any order.
    #[must_use]
    pub fn detailed(self) -> Self {
        self
    }

    /// Returns the numbers recorded so far, like [`SimpleProfiler::snapshot`].
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

/// Adds the counters of each action to its rows.
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
        // Start-up times are read from files once. Reading them here keeps the bytes out of the
        // first action's counters.
        startup::note_first_action();
        self.recorder.start(action);
        self.simple.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        let stopped = self.simple.stop(action);
        // The recorder has the same scopes open, so its result would only repeat the one of
        // `simple`.
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
