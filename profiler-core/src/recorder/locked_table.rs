//! Table for measurements that take more than one clock reading. A lock protects it. Only reports
//! contend for the lock, so its cost is negligible compared with the measurement.

use std::ptr;
use std::sync::PoisonError;

use super::nesting::Nesting;
use super::stack::{Overtaken, Stack};
use super::{Kind, Table};
use crate::NeverStarted;
use mlprof_events::Action;
use mlprof_events::clock::Clock;
use mlprof_events::forking::{Mutex, MutexGuard};

/// Measurement of one thread's scopes. Each scope is identified by a number.
pub(crate) trait Measurement: Default + Send + 'static {
    /// Copy of the measured data, for reports.
    type Snapshot: Clone + Default + Send;
    /// Values read at the very beginning of a scope's end.
    type End;

    /// Kind of the measurement's table.
    const KIND: Kind;

    /// Begins the measurement of a scope. Called as the last part of the scope's start.
    fn open(&mut self, number: u64, action: Action);
    /// Reads the values for a scope's end. Called as the first part of the scope's stop.
    fn read_end() -> Self::End;
    /// Records the end of the scope with this number. `is_outermost` is `true` if the scope was not
    /// inside another one of its action.
    fn close(&mut self, number: u64, action: Action, is_outermost: bool, end: Self::End);
    fn snapshot(&self) -> Self::Snapshot;
    /// Adds the data that another thread measured, or the same thread in another session.
    fn merge(into: &mut Self::Snapshot, from: &Self::Snapshot);

    /// Runs the table's own work, which must not be measured.
    fn aside<R>(work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// Measurements of one thread, behind a lock.
pub(crate) struct LockedTable<M> {
    /// Open scopes.
    stack: Stack<()>,
    state: Mutex<State<M>>,
}

#[derive(Default)]
struct State<M> {
    /// Number of the scope opened last. It is the scope's start time in ticks, or the next larger
    /// number if that one is taken.
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
