//! What one thread records of the operating system's counters: sums per action.

use std::collections::HashMap;

use super::reading::Reading;
use crate::recorder::Kind;
use crate::recorder::locked_table::{LockedTable, Measurement};
use mlprof_events::Action;

/// Next to the system calls that it records, a lock that only reports contend for costs nothing.
pub(super) type CountersTable<const IO: bool, const CPU: bool> = LockedTable<Counters<IO, CPU>>;

/// What the scopes of one thread counted.
#[derive(Default)]
pub(super) struct Counters<const IO: bool, const CPU: bool> {
    /// The counters at the start of open scopes, by the scope's number.
    starts: HashMap<u64, Reading>,
    recorded: CountersSnapshot,
}

/// What was counted per action, and what kept some of it from being known.
#[derive(Debug, Clone, Default)]
pub(super) struct CountersSnapshot {
    pub(super) actions: HashMap<Action, Reading>,
    /// Sentences, each once.
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
        // Read last, so that the action has nothing of what comes before.
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
