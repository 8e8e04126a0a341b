//! The memory profiler: allocated, freed and retained memory of each action.

mod summarize;
mod table;

use std::sync::PoisonError;

use self::table::MemoryTable;
use super::tracker::{Lease, Picture, tracker};
use super::{Tallies, is_installed, live_bytes, peak_bytes, process_tallies};
use crate::output::RenderedReport;
use crate::profiler::{Inner, Internals};
use crate::recorder::Recorder;
use crate::report::internals::{Missing, note_missing};
use crate::report::{MemoryReport, Report, memory};
use crate::{Action, Interest, NeverStarted, Observation, Output, Profiler, RunContext, Stage};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{Stages, uncounted};

/// Counts the allocations and frees of every action and function. It also shows the origins of the
/// memory that was alive at the process's peak and at the end.
///
/// It counts allocations through a [`TrackingAllocator`](super::TrackingAllocator), from its
/// creation until it is dropped. An action includes only the allocations of its own thread, not
/// those made by other threads for it. Allocations of profilers are not counted.
///
/// *How exact*: the tallies of actions are exact. The process's live bytes and peak may be off by
/// 32 KiB for every other running thread. What was alive at the peak was copied when the process
/// had at least 99 % of its peak (or 4 KiB less than it), and holds blocks of 1 KiB and more,
/// unless [told otherwise](Self::blocks_from): the report says how much that is of all.
///
/// *Cost*: about 5 ns for each allocation and each free, and about 20 ns more for a block with a
/// recorded origin. The start and stop of an action cost about 100 ns. *Memory*: at most 6 MB for
/// 262,144 blocks and 4 MB for 65,536 call paths. Blocks and paths beyond that are counted and
/// reported.
///
/// *Stages*: actions belong to the running stage. The peak, the live blocks and the totals of the
/// process belong to the outermost running stage.
///
/// *Several profilers*: a second profiler of this kind also counts, but it does not know the
/// origins of memory. A note in its report explains this.
///
/// ```
/// use mlprof_core::allocation::{AllocationProfiler, TrackingAllocator};
/// use mlprof_core::{Profiler, ProfilerExt};
///
/// #[global_allocator]
/// static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();
///
/// fn main() {
///     let profiler = AllocationProfiler::new();
///     let numbers = {
///         let _scope = profiler.profile("load_data");
///         vec![0_u8; 100_000]
///     };
///     profiler.describe(); // prints the table
///     let report = profiler.snapshot();
///     assert_eq!(report.actions[0].total.allocated_bytes, 100_000);
///     # drop(numbers);
/// }
/// ```
pub struct AllocationProfiler {
    /// `None` if another profiler holds the lease. This field is dropped first, because memory
    /// retained by the other fields was not counted when it was allocated.
    lease: Option<Lease>,
    recorder: Recorder<MemoryTable>,
    output: Output,
    interest: Interest,
    span: Mutex<Span>,
}

/// Data of the report about the whole process.
#[derive(Default)]
struct Span {
    running: Stages<Stage>,
    /// Counts at the beginning of the outermost stage.
    at_start: Process,
    /// Counts at the end of the outermost stage, or `None` while it runs.
    ended: Option<(Process, Picture)>,
}

/// Counts of all threads.
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    tallies: Tallies,
    live_bytes: i64,
    peak_bytes: i64,
}

impl Process {
    fn now() -> Self {
        Self { tallies: process_tallies(), live_bytes: live_bytes(), peak_bytes: peak_bytes() }
    }
}

impl Default for AllocationProfiler {
    fn default() -> Self {
        Self::new()
    }
}

impl AllocationProfiler {
    /// Returns a profiler of actions and functions that prints on the console. Counting begins.
    pub fn new() -> Self {
        uncounted(|| {
            let lease = Lease::take();
            Self {
                recorder: Recorder::new(),
                output: Output::new().of_kind("memory"),
                interest: Interest::ACTIONS | Interest::FUNCTIONS,
                span: Mutex::new(Span { at_start: Process::now(), ..Span::default() }),
                lease,
            }
        })
    }

    crate::output_settings::output_settings!("memory", "");

    /// Counts also the ops of frameworks.
    #[must_use]
    pub fn with_ops(mut self) -> Self {
        self.interest |= Interest::OPS;
        self
    }

    /// Records the origin of blocks of at least this size. With 0 all blocks are recorded, but at
    /// most 262,144 at once.
    #[must_use]
    pub fn blocks_from(self, bytes: usize) -> Self {
        if let Some(lease) = &self.lease {
            lease.restart(bytes);
        }
        self
    }

    fn span(&self) -> MutexGuard<'_, Span> {
        self.span.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the numbers recorded so far. Other threads may continue to record meanwhile.
    pub fn snapshot(&self) -> MemoryReport {
        uncounted(|| {
            let (start, end, picture) = self.process();
            let collected = self.recorder.collect();
            let mut report = summarize::summarize(&collected, &self.output.run(), &picture);
            report.process = summarize::process(&start, &end);
            note_missing(&missing_in(&report), &mut report.header.notes);
            let notes = &mut report.header.notes;
            if self.lease.is_none() {
                notes.push(
                    "another memory profiler was active first, so this one cannot attribute \
                     allocations"
                        .to_owned(),
                );
            }
            report
        })
    }

    fn process(&self) -> (Process, Process, Picture) {
        let span = self.span();
        let (end, picture) = match &span.ended {
            Some(ended) => ended.clone(),
            None => (Process::now(), self.picture()),
        };
        (span.at_start, end, picture)
    }

    fn picture(&self) -> Picture {
        if self.lease.is_some() { tracker().picture() } else { Picture::default() }
    }

    fn begin(&self, stage: Stage) {
        let mut span = self.span();
        span.running.begin(stage);
        if span.running.len() == 1 {
            span.ended = None;
            if self.lease.is_some() {
                tracker().begin_stage();
            }
            span.at_start = Process::now();
        }
    }

    fn end(&self, stage: Option<Stage>) {
        let mut span = self.span();
        if span.running.end(stage).is_some() && span.running.is_empty() {
            span.ended = Some((Process::now(), self.picture()));
        }
    }
}

/// Returns the requested data that is missing in `report`.
fn missing_in(report: &MemoryReport) -> Vec<Missing> {
    if !is_installed() {
        return vec![Missing::Allocator];
    }
    let has_actions = !report.actions.is_empty() || !report.open.is_empty();
    if has_actions { Vec::new() } else { vec![Missing::ActionsWithMemory] }
}

impl Profiler for AllocationProfiler {
    fn start(&self, action: Action) {
        uncounted(|| self.recorder.start(action));
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        uncounted(|| self.recorder.stop(action))
    }

    fn interest(&self) -> Interest {
        self.interest.measurable()
    }

    fn observe(&self, observation: &Observation<'_>) {
        uncounted(|| self.recorder.observe(observation));
    }

    fn setup(&self, stage: Stage, run: &RunContext) {
        uncounted(|| {
            self.output.setup(stage, run);
            self.recorder.begin(stage);
            self.begin(stage);
        });
    }

    fn teardown(&self, stage: Option<Stage>) {
        uncounted(|| {
            self.end(stage);
            self.recorder.end(stage);
            self.output.teardown(stage);
        });
    }

    fn summary(&self) -> String {
        uncounted(|| memory::paint(&self.snapshot()))
    }

    fn report(&self) -> Option<Report> {
        Some(Report::Memory(self.snapshot()))
    }

    fn output(&self) -> Option<&Output> {
        Some(&self.output)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::internals(self)
    }
}

impl Internals for AllocationProfiler {
    fn is_open(&self, action: Action) -> bool {
        uncounted(|| self.recorder.is_open(action))
    }

    fn render(&self) -> RenderedReport {
        uncounted(|| {
            let report = self.snapshot();
            let (text, missing) = (memory::paint(&report), missing_in(&report));
            let printed = memory::paint_on_console(&report);
            let rendered = RenderedReport::new(text, Some(Report::Memory(report)));
            rendered.with_console_text(printed).with_missing(missing)
        })
    }
}
