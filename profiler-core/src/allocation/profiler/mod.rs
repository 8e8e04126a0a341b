//! The profiler of memory: what every action allocated, freed and left behind.

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

/// Counts what every action and function allocates and frees, says who allocated what was alive when
/// the process had most, and what is left over at the end.
///
/// It counts what goes through a [`TrackingAllocator`](super::TrackingAllocator), from its making
/// until it is dropped, and only what the thread of an action does itself: what other threads
/// allocate for it is theirs. What profilers allocate is not counted.
///
/// *How exact*: the tallies of actions are exact. The process's live bytes and peak may be off by
/// 32 KiB for every other running thread. What was alive at the peak was
/// copied when the process had at least 99 % of its peak (or 4 KiB less than it), and holds blocks of
/// 1 KiB and more, unless [told otherwise](Self::blocks_from): the
/// report says how much that is of all.
///
/// *Cost*: some 5 ns for each allocation and each free, some 20 ns more for a block whose origin is
/// remembered, and some 100 ns for the start and stop of an action. *Memory*: at most 6 MB for 262,144
/// blocks, and 4 MB for 65,536 call paths; what does not fit is counted and reported.
///
/// *Stages*: actions are of the running stage; the peak, what is alive and the totals of the process
/// are of the outermost running stage.
///
/// *One at a time*: a second profiler of this kind counts, too, but does not know who allocated
/// what; its report says so.
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
    /// `None`: another profiler has it. Dropped first: what the others kept was not counted when it
    /// was allocated.
    lease: Option<Lease>,
    recorder: Recorder<MemoryTable>,
    output: Output,
    interest: Interest,
    span: Mutex<Span>,
}

/// What the report says of the process as a whole.
#[derive(Default)]
struct Span {
    running: Stages<Stage>,
    /// When the outermost began.
    at_start: Process,
    /// When it ended; `None` while it runs.
    ended: Option<(Process, Picture)>,
}

/// What all threads have counted.
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
    /// Of actions and functions, on the console. Counting begins.
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

    /// Counts the ops of frameworks, too.
    #[must_use]
    pub fn with_ops(mut self) -> Self {
        self.interest |= Interest::OPS;
        self
    }

    /// Remembers who allocated blocks of so many bytes and more; with 0 all blocks, of which at most
    /// 262,144 can be known at once.
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

    /// The numbers so far. Other threads may go on recording meanwhile.
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
                    "another profiler of memory was there first: this one does not know who \
                     allocated what"
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

/// What was asked for and is not in `report`.
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
