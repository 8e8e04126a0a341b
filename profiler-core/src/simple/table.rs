//! Table of one thread for the Simple profiler: one row per action.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;
// Loom's atomics are not needed here, because only one thread accesses the row pointers.
use std::sync::atomic::{AtomicPtr, Ordering};

use super::histogram::Octaves;
use super::row::{Row, RowSnapshot};
use crate::NeverStarted;
use crate::recorder::arena::Arena;
use crate::recorder::index::ActionIndex;
use crate::recorder::stack::{Overtaken, Stack};
use crate::recorder::steps::{ActionTicks, TellsTotals};
use crate::recorder::{Kind, Table};
use mlprof_events::Action;
use mlprof_events::clock::{Clock, counter};

/// Number of action numbers with a direct row pointer. Their rows are found without a search.
const NEAR: usize = 256;

/// Rows of one thread's actions.
///
/// *Memory*: 2 kB, plus 320 bytes for each action and 16 to 64 bytes for its slots in `index`.
///
/// *Invariant*: if `near` has a place for an action's number, the row is there, otherwise it is in
/// `index`. `rows` owns all rows.
pub(crate) struct SimpleTable {
    stack: Stack<Row>,
    rows: Arena<Row>,
    /// Octaves of the histograms of all rows.
    octaves: Arc<Octaves>,
    index: ActionIndex<Row>,
    near: [AtomicPtr<Row>; NEAR],
}

impl SimpleTable {
    /// Returns the row of an action and creates it on first use.
    fn row(&self, action: Action) -> &Row {
        self.known_row(action).unwrap_or_else(|| {
            let row = self.rows.add(Row::new(action, self.stack.innermost(), &self.octaves));
            match self.near.get(action.number() as usize) {
                Some(place) => place.store(ptr::from_ref(row).cast_mut(), Ordering::Relaxed),
                // SAFETY: the table owns both the rows and the index, so rows outlive the index.
                None => unsafe { self.index.insert(row) },
            }
            row
        })
    }

    /// Returns the row of an action that has been used.
    fn known_row(&self, action: Action) -> Option<&Row> {
        match self.near.get(action.number() as usize) {
            Some(place) => Self::row_of(place),
            None => self.index.get(action),
        }
    }

    /// Returns the row of an action. For some actions that were interned late in the process it may
    /// be the row of another action.
    #[inline(always)]
    fn likely_row(&self, action: Action) -> Option<&Row> {
        match self.near.get(action.number() as usize) {
            Some(place) => Self::row_of(place),
            None => self.index.get_slot(action),
        }
    }

    #[inline(always)]
    fn row_of(place: &AtomicPtr<Row>) -> Option<&Row> {
        // SAFETY: by the invariant, the place holds null or a pointer to a row, and rows live as
        // long as the table.
        unsafe { place.load(Ordering::Relaxed).as_ref() }
    }
}

impl Table for SimpleTable {
    type Snapshot = HashMap<Action, RowSnapshot>;
    type Record = Row;

    const KIND: Kind = Kind::Rows;

    fn new() -> Self {
        Self {
            stack: Stack::new(),
            rows: Arena::new(),
            octaves: Arc::default(),
            index: ActionIndex::new(),
            near: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    #[inline(always)]
    fn start(&self, action: Action, clock: &Clock) {
        match (self.likely_row(action), self.stack.room()) {
            (Some(row), Some(room)) if row.is_closed(action) => {
                row.open(action);
                room.push(action, row, counter);
            }
            _ => self.start_slow(action, clock),
        }
    }

    #[cold]
    #[inline(never)]
    fn start_slow(&self, action: Action, clock: &Clock) {
        let Some(room) = self.stack.make_room() else { return };
        let row = self.row(action);
        let is_recursive = row.is_open();
        row.open(action);
        room.push_any(action, row, is_recursive, || clock.now());
    }

    #[inline(always)]
    fn stop(
        &self,
        action: Action,
        elsewhere: impl FnOnce() -> Result<(), NeverStarted>,
    ) -> Result<(), NeverStarted> {
        match self.stack.pop(action, counter()) {
            Some(closed) => {
                // SAFETY: `start` pushed a pointer to a row of `self.rows`, which lives as long as
                // this table.
                let row = unsafe { &*closed.record };
                row.close(action);
                row.record(closed)
            }
            None => elsewhere(),
        }
    }

    #[cold]
    #[inline(never)]
    fn stop_slow(&self, action: Action, clock: &Clock) -> bool {
        if self.stack.close_missed() {
            return true;
        }
        // A detached scope has no enclosing scope, and later scopes are not inside it.
        let on_detach = |scope: &Overtaken<Row>| {
            if !scope.is_recursive {
                // SAFETY: the record is a row of `self.rows`, which lives as long as this table.
                unsafe { &*scope.record }.close(scope.action);
            }
        };
        let Some(closed) = self.stack.pop_any(action, clock.now(), on_detach) else {
            return false;
        };
        // SAFETY: the record is a row of `self.rows`, which lives as long as this table.
        let row = unsafe { &*closed.record };
        if closed.is_outermost && !closed.is_detached {
            row.close(action);
        }
        row.record(closed).is_ok()
    }

    fn stack(&self) -> &Stack<Row> {
        &self.stack
    }

    fn snapshot(&self) -> Self::Snapshot {
        self.rows.iter().filter_map(|row| Some((row.action()?, row.snapshot()?))).collect()
    }

    fn merge(into: &mut Self::Snapshot, from: &Self::Snapshot) {
        for (action, row) in from {
            into.entry(*action).and_modify(|sum| sum.merge(row)).or_insert_with(|| row.clone());
        }
    }
}

impl SimpleTable {
    /// Returns the row of a place. Each action has one place, so the action's number serves as the
    /// place.
    fn row_at(&self, place: usize) -> Option<&Row> {
        self.known_row(Action::from_number(u32::try_from(place).ok()?)?)
    }
}

impl TellsTotals for SimpleTable {
    fn places(&self) -> usize {
        self.rows.len()
    }

    fn places_from(&self, number: usize) -> impl Iterator<Item = (usize, Action)> {
        let actions = self.rows.iter().skip(number).filter_map(Row::action);
        actions.map(|action| (action.number() as usize, action))
    }

    fn around(&self, place: usize) -> impl Iterator<Item = Action> {
        let around = |row: &Row| row.around();
        std::iter::successors(self.row_at(place).and_then(around), move |action| {
            self.known_row(*action).and_then(around)
        })
    }

    fn ticks(&self, place: usize) -> Option<ActionTicks> {
        self.row_at(place)?.ticks()
    }
}
