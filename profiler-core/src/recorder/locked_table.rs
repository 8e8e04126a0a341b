//! The table of what takes more than a reading of the clock to measure. It is behind a lock, which costs
//! nothing beside that: only reports contend for it.

use std::ptr;
use std::sync::PoisonError;

use super::nesting::Nesting;
use super::stack::{Overtaken, Stack};
use super::{Kind, Table};
use crate::NeverStarted;
use mlprof_events::Action;
use mlprof_events::clock::Clock;
use mlprof_events::forking::{Mutex, MutexGuard};

/// What is measured of the scopes of one thread, each of which is known by a number.
pub(crate) trait Measurement: Default + Send + 'static {
    /// A copy of what was measured, for reports.
    type Snapshot: Clone + Default + Send;
    /// What is read when a scope ends, before anything else is done.
    type End;

    /// Which of the kinds its table is.
    const KIND: Kind;

    /// A scope begins: the last thing that is done of its start.
    fn open(&mut self, number: u64, action: Action);
    /// A scope ends: the first thing that is done of its stop.
    fn read_end() -> Self::End;
    /// The scope of this number has ended; whether it was not inside another one of its action.
    fn close(&mut self, number: u64, action: Action, is_outermost: bool, end: Self::End);
    fn snapshot(&self) -> Self::Snapshot;
    /// Adds what another thread, or the same one in another session, measured.
    fn merge(into: &mut Self::Snapshot, from: &Self::Snapshot);

    /// Does work of the table's that must not be measured itself.
    fn aside<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// What one thread measures, behind a lock.
pub(crate) struct LockedTable<M> {
    /// Which scopes are open.
    stack: Stack<()>,
    state: Mutex<State<M>>,
}

#[derive(Default)]
struct State<M> {
    /// The number of the scope opened last: when it began, or the next number if that is taken.
    last: u64,
    nesting: Nesting,
    measurement: M,
}

impl<M: Measurement> LockedTable<M> {
    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, action: Action, clock: &Clock) {
        M::aside(|| {
            let State { last, nesting, measurement } = &mut *self.state();
            let Some(room) = self.stack.make_room() else { return };
            *last = clock.now().max(*last + 1);
            room.push_any(action, ptr::null(), nesting.open(action), || *last);
            measurement.open(*last, action);
        });
    }

    fn close(&self, action: Action) -> bool {
        M::aside(|| {
            if self.stack.close_missed() {
                return true;
            }
            let end = M::read_end();
            let State { nesting, measurement, .. } = &mut *self.state();
            let on_detach = |scope: &Overtaken<()>| nesting.close(scope.action);
            let Some(closed) = self.stack.pop_any(action, 0, on_detach) else { return false };
            if !closed.is_detached {
                nesting.close(action);
            }
            measurement.close(closed.started, action, closed.is_outermost, end);
            true
        })
    }
}

impl<M: Measurement> Table for LockedTable<M> {
    type Snapshot = M::Snapshot;
    type Record = ();

    const KIND: Kind = M::KIND;

    fn new() -> Self {
        Self { stack: Stack::new(), state: Mutex::default() }
    }

    fn start(&self, action: Action, clock: &Clock) {
        self.open(action, clock);
    }

    fn start_slow(&self, action: Action, clock: &Clock) {
        self.open(action, clock);
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

    fn snapshot(&self) -> M::Snapshot {
        self.state().measurement.snapshot()
    }

    fn merge(into: &mut M::Snapshot, from: &M::Snapshot) {
        M::merge(into, from);
    }
}
