//! What one thread records about bytes: sums per action.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::counters;
use crate::NeverStarted;
use crate::action::Action;
use crate::clock::Clock;
use crate::recorder::Table;
use crate::recorder::stack::Stack;
use crate::report::simple::IoStatistics;

/// Next to the system calls that it records, a lock that only reports contend for costs nothing.
pub(super) struct IoTable {
    /// Which scopes are open. Frames hold, instead of a time, the number of their scope.
    stack: Stack<()>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of the scope opened last.
    last: u64,
    /// The counters at the start of open scopes, by the scope's number.
    starts: HashMap<u64, IoStatistics>,
    recorded: IoSnapshot,
}

/// What was read and written per action, and what kept some of it from being known.
#[derive(Debug, Clone, Default)]
pub(super) struct IoSnapshot {
    pub(super) actions: HashMap<Action, IoStatistics>,
    pub(super) problem: Option<String>,
}

impl IoTable {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, action: Action) {
        let mut state = self.state();
        state.last += 1;
        let number = state.last;
        self.stack.push_any(action, ptr::null(), true, || number);
        // Read last, so that the action has nothing of what comes before.
        match counters::read() {
            Ok(start) => drop(state.starts.insert(number, start)),
            Err(problem) => state.recorded.problem = Some(problem),
        }
    }

    fn close(&self, action: Action) -> bool {
        let end = counters::read();
        let mut state = self.state();
        let Some(closed) = self.stack.pop_any(action, 0, |_| ()) else { return false };
        let start = state.starts.remove(&closed.started);
        match (start, end) {
            (Some(start), Ok(end)) if closed.is_outermost => {
                state.recorded.actions.entry(action).or_default().add(&difference(end, start));
            }
            (_, Err(problem)) => state.recorded.problem = Some(problem),
            _ => {}
        }
        true
    }
}

fn difference(end: IoStatistics, start: IoStatistics) -> IoStatistics {
    IoStatistics {
        read_bytes: end.read_bytes.saturating_sub(start.read_bytes),
        written_bytes: end.written_bytes.saturating_sub(start.written_bytes),
        storage_read_bytes: end.storage_read_bytes.saturating_sub(start.storage_read_bytes),
        storage_written_bytes: end
            .storage_written_bytes
            .saturating_sub(start.storage_written_bytes),
    }
}

impl Table for IoTable {
    type Snapshot = IoSnapshot;
    type Record = ();

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

    fn snapshot(&self) -> IoSnapshot {
        self.state().recorded.clone()
    }

    fn merge(into: &mut IoSnapshot, from: &IoSnapshot) {
        for (action, io) in &from.actions {
            into.actions.entry(*action).or_default().add(io);
        }
        if into.problem.is_none() {
            into.problem.clone_from(&from.problem);
        }
    }
}
