//! Counters of the operating system for each action of the Simple profiler: bytes read and written,
//! CPU time and context switches.

mod cpu;
mod io;
mod reading;
mod table;

use std::collections::HashMap;

use self::reading::Reading;
use self::table::{CountersSnapshot, CountersTable};
use crate::recorder::{Part, Recorder};
use crate::report::SimpleReport;
use crate::report::simple::ActionStatistics;
use crate::{Action, Stage};

/// Selected counters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CounterSelection {
    pub(super) io: bool,
    pub(super) cpu: bool,
}

impl CounterSelection {
    /// Returns a recorder for the selected counters.
    pub(super) fn recorder(self) -> Option<Box<dyn CountersRecorder>> {
        match (self.io, self.cpu) {
            (false, false) => None,
            (true, false) => Some(Box::new(Recorder::<CountersTable<true, false>>::aside())),
            (false, true) => Some(Box::new(Recorder::<CountersTable<false, true>>::aside())),
            (true, true) => Some(Box::new(Recorder::<CountersTable<true, true>>::aside())),
        }
    }
}

impl From<CounterSelection> for u8 {
    fn from(selection: CounterSelection) -> Self {
        Self::from(selection.io) + 2 * Self::from(selection.cpu)
    }
}

/// Recorder for counters. It has the same sessions and threads as the Simple profiler's own
/// recorder.
pub(super) trait CountersRecorder: Send + Sync {
    fn start(&self, action: Action);
    fn stop(&self, action: Action);
    fn begin(&self, stage: Stage);
    fn end(&self, stage: Option<Stage>);
    /// Adds the recorded counters and the problems of their readings to the report.
    fn add_to(&self, report: &mut SimpleReport);
}

impl<const IO: bool, const CPU: bool> CountersRecorder for Recorder<CountersTable<IO, CPU>> {
    fn start(&self, action: Action) {
        self.start(action);
    }

    fn stop(&self, action: Action) {
        // This recorder has the same scopes open as the profiler's own recorder, so its result
        // would only repeat that one.
        let _ = self.stop(action);
    }

    fn begin(&self, stage: Stage) {
        self.begin(stage);
    }

    fn end(&self, stage: Option<Stage>) {
        self.end(stage);
    }

    fn add_to(&self, report: &mut SimpleReport) {
        let collected = self.collect();
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

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests;
