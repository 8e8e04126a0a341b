//! What one thread records for the Simple profiler: one row per action, aggregated in place.

use std::collections::HashMap;

use super::histogram::Histogram;
use crate::action::Action;
use crate::clock::Clock;
use crate::recorder::Table;
use crate::recorder::action_map::ActionMap;
use crate::recorder::stack::{Closed, Open, Stack};
use crate::sync::Tally;

/// The calls of one action on one thread. Times in ticks.
///
/// *Invariant*: written by the owning thread only. `count` is published last, so a reader that
/// reads it first finds at least that many calls in the other tallies.
pub(super) struct Row {
    count: Tally,
    /// Calls of the action that are open now.
    active: Tally,
    /// Of calls that were not made inside a call of the same action.
    total: Tally,
    own: Tally,
    first: Tally,
    first_started: Tally,
    /// Shortest, longest and distribution of all calls but the first.
    min: Tally,
    max: Tally,
    distribution: Histogram,
}

impl Row {
    fn new() -> Self {
        let zero = || Tally::new(0);
        Self {
            count: zero(),
            active: zero(),
            total: zero(),
            own: zero(),
            first: zero(),
            first_started: zero(),
            min: Tally::new(u64::MAX),
            max: zero(),
            distribution: Histogram::new(),
        }
    }

    #[inline(always)]
    fn leave(&self) -> bool {
        let others = self.active.get().saturating_sub(1);
        self.active.set(others);
        others == 0
    }

    #[inline(always)]
    fn record(&self, closed: &Closed<Self>, is_outermost: bool) {
        let count = self.count.get();
        if is_outermost {
            self.total.add(closed.elapsed);
        }
        self.own.add(closed.own);
        if count == 0 {
            self.record_first(closed);
        } else {
            if closed.elapsed < self.min.get() {
                self.min.set(closed.elapsed);
            }
            if closed.elapsed > self.max.get() {
                self.max.set(closed.elapsed);
            }
            self.distribution.record(closed.elapsed);
        }
        self.count.publish(count + 1);
    }

    #[cold]
    fn record_first(&self, closed: &Closed<Self>) {
        self.first.set(closed.elapsed);
        self.first_started.set(closed.started);
    }

    fn snapshot(&self) -> Option<RowSnapshot> {
        let count = self.count.get_published();
        (count > 0).then(|| RowSnapshot {
            count,
            total: self.total.get(),
            own: self.own.get(),
            first: self.first.get(),
            first_started: self.first_started.get(),
            min: self.min.get(),
            max: self.max.get(),
            distribution: self.distribution.counts(),
        })
    }
}

/// A copy of a [`Row`], or of the rows of one action on several threads.
#[derive(Debug, Clone)]
pub(crate) struct RowSnapshot {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) own: u64,
    pub(super) first: u64,
    pub(super) first_started: u64,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) distribution: Vec<u64>,
}

impl RowSnapshot {
    /// Adds the row of another thread. The first call of both is the one that began earlier; the
    /// other one's becomes one of the rest.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.own += other.own;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (sum, count) in self.distribution.iter_mut().zip(&other.distribution) {
            *sum += count;
        }
        let mut later = other.first;
        if other.first_started < self.first_started {
            later = std::mem::replace(&mut self.first, other.first);
            self.first_started = other.first_started;
        }
        self.min = self.min.min(later);
        self.max = self.max.max(later);
        self.distribution[super::histogram::bucket_of(later)] += 1;
    }
}

pub(crate) struct SimpleTable {
    stack: Stack<Row>,
    rows: ActionMap<Row>,
}

impl SimpleTable {
    #[cold]
    #[inline(never)]
    fn stop_out_of_order(&self, action: Action, now: u64) -> bool {
        // A scope that is overtaken no longer surrounds the calls that follow.
        let on_detach = |record: *const Row| {
            // SAFETY: as in `stop`.
            unsafe { &*record }.leave();
        };
        let Some(closed) = self.stack.pop_out_of_order(action, now, on_detach) else {
            return false;
        };
        // SAFETY: as in `stop`.
        let row = unsafe { &*closed.record };
        let is_outermost = closed.is_detached || row.leave();
        row.record(&closed, is_outermost);
        true
    }
}

impl Table for SimpleTable {
    type Snapshot = HashMap<Action, RowSnapshot>;

    fn new() -> Self {
        Self { stack: Stack::new(), rows: ActionMap::new() }
    }

    #[inline(always)]
    fn start(&self, action: Action, clock: &Clock) {
        let row = self.rows.get_or_insert(action, Row::new);
        row.active.add(1);
        self.stack.push(action, row, clock);
    }

    #[inline(always)]
    fn stop(&self, action: Action, clock: &Clock) -> bool {
        let now = clock.ticks();
        let Some(closed) = self.stack.pop(action, now) else {
            return self.stop_out_of_order(action, now);
        };
        // SAFETY: `start` pushed a record of `self.rows`, which lives as long as this table.
        let row = unsafe { &*closed.record };
        let is_outermost = row.leave();
        row.record(&closed, is_outermost);
        true
    }

    fn take_outermost_time(&self) -> u64 {
        self.stack.take_outermost_time()
    }

    fn add_inner_time(&self, time: u64) {
        self.stack.add_inner_time(time);
    }

    fn has_open_scopes(&self) -> bool {
        !self.stack.is_empty()
    }

    fn open_scopes(&self) -> Vec<Open> {
        self.stack.open()
    }

    fn snapshot(&self) -> Self::Snapshot {
        self.rows.iter().filter_map(|(action, row)| Some((action, row.snapshot()?))).collect()
    }

    fn merge(into: &mut Self::Snapshot, from: &Self::Snapshot) {
        for (action, row) in from {
            into.entry(*action).and_modify(|sum| sum.merge(row)).or_insert_with(|| row.clone());
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Whatever a reader sees of a row while it is written has at least the counted calls in it.
    #[test]
    fn a_count_never_runs_ahead_of_what_it_counts() {
        let action = Action::new("loom-row");
        let clock = Clock::new();
        loom::model(move || {
            let table = Arc::new(SimpleTable::new());
            let writer = {
                let (table, clock) = (table.clone(), clock.clone());
                thread::spawn(move || {
                    for _ in 0..2 {
                        table.start(action, &clock);
                        assert!(table.stop(action, &clock));
                    }
                })
            };
            if let Some(row) = table.snapshot().get(&action) {
                let in_rest: u64 = row.distribution.iter().sum();
                assert!(row.first_started > 0 && in_rest + 1 >= row.count);
            }
            writer.join().expect("writer");
            assert_eq!(table.snapshot()[&action].count, 2);
        });
    }
}
