//! What one thread records of the operating system's counters: sums per action.

use std::collections::HashMap;
use std::ptr;
use std::sync::PoisonError;

use super::reading::Reading;
use crate::NeverStarted;
use crate::recorder::nesting::Nesting;
use crate::recorder::stack::{Overtaken, Stack};
use crate::recorder::{Kind, Table};
use profiler_events::Action;
use profiler_events::clock::Clock;
use profiler_events::forking::{Mutex, MutexGuard};

/// Next to the system calls that it records, a lock that only reports contend for costs nothing.
pub(super) struct CountersTable<const IO: bool, const CPU: bool> {
    /// Which scopes are open. Frames hold, instead of a time, the number of their scope.
    stack: Stack<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the scope opened last.
    last: u64,
    /// The counters at the start of open scopes, by the scope's number.
    starts: HashMap<u64, Reading>,
    nesting: Nesting,
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

impl<const IO: bool, const CPU: bool> CountersTable<IO, CPU> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, action: Action) {
        let mut state = self.state();
        let State { last, starts, nesting, recorded } = &mut *state;
        *last += 1;
        self.stack.push_any(action, ptr::null(), nesting.open(action), || *last);
        // Read last, so that the action has nothing of what comes before.
        let start = Reading::at_start::<IO, CPU>(|problem| recorded.note(problem));
        starts.insert(*last, start);
    }

    fn close(&self, action: Action) -> bool {
        let mut problems = Vec::new();
        let end = Reading::at_end::<IO, CPU>(|problem| problems.push(problem));
        let mut state = self.state();
        problems.into_iter().for_each(|problem| state.recorded.note(problem));
        let nesting = &mut state.nesting;
        let on_detach = |scope: &Overtaken<()>| nesting.close(scope.action);
        let Some(closed) = self.stack.pop_any(action, 0, on_detach) else { return false };
        if !closed.is_detached {
            state.nesting.close(action);
        }
        let start = state.starts.remove(&closed.started);
        if let Some(start) = start.filter(|_| closed.is_outermost) {
            state.recorded.actions.entry(action).or_default().add(&end.since(&start));
        }
        true
    }
}

impl<const IO: bool, const CPU: bool> Table for CountersTable<IO, CPU> {
    type Snapshot = CountersSnapshot;
    type Record = ();

    const KIND: Kind = Kind::Counters;

    fn new() -> Self {
        Self { stack: Stack::new(), state: Mutex::default() }
    }

    fn start(&self, action: Action, _clock: &Clock) {
        self.open(action);
    }

    fn start_slow(&self, action: Action, _clock: &Clock) {
        self.open(action);
    }

    fn stop(
        &self,
        action: Action,
        elsewhere: impl FnOnce() -> Result<(), NeverStarted>,
    ) -> Result<(), NeverStarted> {
        if self.close(action) { Ok(()) } else { elsewhere() }
    }

    fn stop_slow(&self, action: Action, _clock: &Clock) -> bool {
        self.close(action)
    }

    fn stack(&self) -> &Stack<()> {
        &self.stack
    }

    fn snapshot(&self) -> CountersSnapshot {
        self.state().recorded.clone()
    }

    fn merge(into: &mut CountersSnapshot, from: &CountersSnapshot) {
        for (action, counted) in &from.actions {
            into.actions.entry(*action).or_default().add(counted);
        }
        from.problems.iter().cloned().for_each(|problem| into.note(problem));
    }
}
