//! What one thread records for the Simple profiler: one row per action, aggregated in place.

use std::collections::HashMap;

use super::histogram::Histogram;
use crate::NeverStarted;
use crate::action::Action;
use crate::clock::{Clock, counter};
use crate::recorder::Table;
use crate::recorder::action_map::ActionMap;
use crate::recorder::stack::{Closed, Stack, span};
use crate::sync::Tally;

/// The calls of one action on one thread. Times in ticks.
///
/// *Invariant*: written by the owning thread only. `count` is published last, so a reader that
/// reads it first finds at least that many calls in the other tallies.
#[repr(C, align(64))]
pub(crate) struct Row {
    // One cache line that every call touches, then the distribution.
    count: Tally,
    /// Of calls that were not made inside a call of the same action.
    total: Tally,
    /// The part of all calls that was spent in scopes directly inside.
    children: Tally,
    /// Shortest, longest and distribution of all calls but the first.
    min: Tally,
    max: Tally,
    /// `max - min`: whether a duration is between the two is one comparison.
    range: Tally,
    first: Tally,
    first_started: Tally,
    distribution: Histogram,
    /// Of calls that were made inside a call of the same action.
    recursive: Tally,
}

impl Row {
    fn new() -> Self {
        let zero = || Tally::new(0);
        Self {
            count: zero(),
            total: zero(),
            children: zero(),
            min: Tally::new(u64::MAX),
            max: zero(),
            range: zero(),
            first: zero(),
            first_started: zero(),
            distribution: Histogram::new(),
            recursive: zero(),
        }
    }

    #[inline(always)]
    fn record(&self, closed: Closed<Self>) -> Result<(), NeverStarted> {
        let sum = if closed.is_outermost { &self.total } else { &self.recursive };
        sum.add(closed.elapsed);
        self.children.add(closed.children);
        // Below `min` the difference wraps to more than any range; so it does for the first two
        // calls, when `min` still is the largest of all numbers, and for a span below 0.
        if closed.elapsed.wrapping_sub(self.min.get()) <= self.range.get() {
            self.distribution.record(closed.elapsed);
            self.count.publish(self.count.get() + 1);
            Ok(())
        } else {
            self.record_outlier(closed.elapsed, closed.started)
        }
    }

    /// Records the duration of the first call, or of one that is shorter or longer than all others.
    #[cold]
    #[inline(never)]
    fn record_outlier(&self, elapsed: u64, started: u64) -> Result<(), NeverStarted> {
        let (count, elapsed) = (self.count.get(), span(elapsed));
        if count == 0 {
            self.first.set(elapsed);
            self.first_started.set(started);
        } else {
            self.min.set(self.min.get().min(elapsed));
            self.max.set(self.max.get().max(elapsed));
            self.range.set(self.max.get() - self.min.get());
            self.distribution.record(elapsed);
        }
        self.count.publish(count + 1);
        Ok(())
    }

    fn snapshot(&self) -> Option<RowSnapshot> {
        let count = self.count.get_published();
        (count > 0).then(|| RowSnapshot {
            count,
            total: span(self.total.get()),
            own: span(
                self.total
                    .get()
                    .wrapping_add(self.recursive.get())
                    .wrapping_sub(self.children.get()),
            ),
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

impl Table for SimpleTable {
    type Snapshot = HashMap<Action, RowSnapshot>;
    type Record = Row;

    fn new() -> Self {
        Self { stack: Stack::new(), rows: ActionMap::new() }
    }

    #[inline(always)]
    fn start(&self, action: Action, clock: &Clock) {
        match (self.rows.get_near(action), self.stack.room()) {
            (Some(row), Some(room)) if room.is_outermost_for(action) => {
                room.push(action, row, counter);
            }
            _ => self.start_slow(action, clock),
        }
    }

    #[cold]
    #[inline(never)]
    fn start_slow(&self, action: Action, clock: &Clock) {
        let row = self.rows.get_or_insert(action, Row::new);
        self.stack.push_any(action, row, true, || clock.ticks());
    }

    #[inline(always)]
    fn stop(
        &self,
        action: Action,
        elsewhere: impl FnOnce() -> Result<(), NeverStarted>,
    ) -> Result<(), NeverStarted> {
        match self.stack.pop(action, counter()) {
            // SAFETY: `start` pushed a record of `self.rows`, which lives as long as this table.
            Some(closed) => unsafe { &*closed.record }.record(closed),
            None => elsewhere(),
        }
    }

    #[cold]
    #[inline(never)]
    fn stop_slow(&self, action: Action, clock: &Clock) -> bool {
        let closed = self.stack.pop_any(action, clock.ticks(), |_| ());
        // SAFETY: as in `stop`.
        closed.is_some_and(|closed| unsafe { &*closed.record }.record(closed).is_ok())
    }

    fn stack(&self) -> &Stack<Row> {
        &self.stack
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
        let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = orders.clone();
        loom::model(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let row = Arc::new(Row::new());
            // The reader is spawned, not the writer: see the tests of the stack.
            let reader = {
                let row = row.clone();
                thread::spawn(move || {
                    let count = row.count.get_published();
                    assert!(row.total.get() >= 10 * count, "{count}");
                    assert!(count < 1 || row.first_started.get() == 1);
                    assert!(count < 2 || row.min.get() == 10);
                })
            };
            for started in 1..=2 {
                let (elapsed, children) = (10, 0);
                let (is_outermost, is_detached) = (true, false);
                let record = std::ptr::null();
                let closed =
                    Closed { record, started, elapsed, children, is_outermost, is_detached };
                assert!(row.record(closed).is_ok());
            }
            reader.join().expect("reader");
        });
        let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
        assert!(orders > 20, "{orders} orders");
    }
}
