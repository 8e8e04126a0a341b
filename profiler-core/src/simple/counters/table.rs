//! One thread's sums of operating-system counters per action.

use std::collections::HashMap;

use super::reading::Reading;
use crate::recorder::Kind;
use crate::recorder::locked_table::{LockedTable, Measurement};
use mlprof_events::Action;

/// Table of one thread's counters. Its lock is contended only by reports, so its cost is negligible
/// compared with the system calls that it records.
pub(super) type CountersTable<const IO: bool, const CPU: bool> = LockedTable<Counters<IO, CPU>>;

/// Counters of the scopes of one thread.
#[derive(Default)]
pub(super) struct Counters<const IO: bool, const CPU: bool> {
    /// Counters at the start of each open scope, by the scope's number.
    starts: HashMap<u64, Reading>,
    recorded: CountersSnapshot,
}

/// Counters per action, and the problems that made some of them unavailable.
#[derive(Debug, Clone, Default)]
pub(super) struct CountersSnapshot {
    pub(super) actions: HashMap<Action, Reading>,
    /// Sentences without duplicates.
    pub(super) problems: Vec<String>,
}

impl CountersSnapshot {
    fn note(&mut self, problem: String) {
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }
}

impl<const IO: bool, const CPU: bool> Measurement for Counters<IO, CPU> {
    type Snapshot = CountersSnapshot;
    type End = (Reading, Vec<String>);

    const KIND: Kind = Kind::Counters;

    fn open(&mut self, number: u64, _action: Action) {
        // The counters are read last, so that the action does not include the work before.
        let start = Reading::at_start::<IO, CPU>(|problem| self.recorded.note(problem));
        self.starts.insert(number, start);
    }

    fn read_end() -> (Reading, Vec<String>) {
        let mut problems = Vec::new();
        (Reading::at_end::<IO, CPU>(|problem| problems.push(problem)), problems)
    }

    fn close(
        &mut self,
        number: u64,
        action: Action,
        is_outermost: bool,
        (end, problems): (Reading, Vec<String>),
    ) {
        problems.into_iter().for_each(|problem| self.recorded.note(problem));
        let start = self.starts.remove(&number);
        if let Some(start) = start.filter(|_| is_outermost) {
            self.recorded.actions.entry(action).or_default().add(&end.since(&start));
        }
    }

    fn snapshot(&self) -> CountersSnapshot {
        self.recorded.clone()
    }

    fn merge(into: &mut CountersSnapshot, from: &CountersSnapshot) {
        for (action, counted) in &from.actions {
            into.actions.entry(*action).or_default().add(counted);
        }
        from.problems.iter().cloned().for_each(|problem| into.note(problem));
    }
}
