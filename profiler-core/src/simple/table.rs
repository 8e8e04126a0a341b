//! What one thread records for the Simple profiler: one row per action, aggregated in place.

use std::collections::HashMap;
use std::sync::Arc;

use super::distribution::Distribution;
use super::histogram::{Histogram, Octaves};
use crate::NeverStarted;
use crate::recorder::arena::Arena;
use crate::recorder::index::{ActionIndex, Named};
use crate::recorder::stack::{Closed, Overtaken, Stack, span};
use crate::recorder::steps::{ActionTicks, TellsTotals};
use crate::recorder::{Kind, Table};
use profiler_events::Action;
use profiler_events::clock::{Clock, counter};
use profiler_events::sync::{AtomicU32, Ordering, Tally};

/// The calls of one action on one thread. Times in ticks.
///
/// There is no count of calls: the first one is in `firsts`, the others are in the distribution.
///
/// *Invariant*: written by the owning thread only. A call is published last, so a reader that reads the
/// distribution first, and then `firsts`, finds at least that many calls in the other tallies, and
/// `min` and `max` around all that is in the distribution.
#[repr(C, align(64))]
pub(crate) struct Row {
    // One cache line, which is all that nearly every call touches; the distribution begins in it.
    /// Of calls that were not made inside a call of the same action.
    total: Tally,
    /// The part of all calls that was spent in scopes directly inside.
    children: Tally,
    /// Durations from this one up to `range` more are usual for the distribution: one comparison tells.
    usual: Tally,
    range: AtomicU32,
    /// The [number](Action::number) of the action, and with [`OPEN`] while a call is open that others
    /// would be inside of; for the owning thread.
    state: AtomicU32,
    /// Of all calls but the first.
    distribution: Histogram,
    /// [`FIRST`] once there was a first call, and above [`AROUND`] the [number](Action::number) of what it was
    /// made inside of, 0 where it is outside of all.
    firsts: Tally,
    first: Tally,
    first_started: Tally,
    /// Of calls that were made inside a call of the same action.
    recursive: Tally,
}

const _: () = {
    let end = std::mem::offset_of!(Row, distribution) + Histogram::BYTES_OF_NEAR;
    assert!(end <= 64 || cfg!(loom), "more than one cache line for each name that is used in turn");
};

/// In `firsts` of a [`Row`].
const FIRST: u64 = 1;
const AROUND: u32 = 32;

/// In the state of a [`Row`]; no action has a number that large.
const OPEN: u32 = 1 << 31;

impl Named for Row {
    #[inline(always)]
    fn number(&self) -> u32 {
        self.state() & !OPEN
    }
}

impl Row {
    fn new(action: Action, around: Option<Action>, octaves: &Arc<Octaves>) -> Self {
        let zero = || Tally::new(0);
        Self {
            total: zero(),
            children: zero(),
            usual: Tally::new(u64::MAX),
            range: AtomicU32::new(0),
            state: AtomicU32::new(action.number()),
            distribution: Histogram::new(octaves),
            firsts: Tally::new(around.map_or(0, |around| u64::from(around.number()) << AROUND)),
            first: zero(),
            first_started: zero(),
            recursive: zero(),
        }
    }

    fn action(&self) -> Option<Action> {
        Action::from_number(self.number())
    }

    #[inline(always)]
    fn state(&self) -> u32 {
        self.state.load(Ordering::Relaxed)
    }

    /// Whether this is the row of `action`, and no call is open.
    #[inline(always)]
    fn is_closed(&self, action: Action) -> bool {
        self.state() == action.number()
    }

    /// What the first call was made inside of.
    fn around(&self) -> Option<Action> {
        Action::from_number((self.firsts.get() >> AROUND) as u32)
    }

    fn is_open(&self) -> bool {
        self.state() & OPEN != 0
    }

    #[inline(always)]
    fn open(&self, action: Action) {
        self.state.store(action.number() | OPEN, Ordering::Relaxed);
    }

    #[inline(always)]
    fn close(&self, action: Action) {
        self.state.store(action.number(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn record(&self, closed: Closed<Self>) -> Result<(), NeverStarted> {
        let sum = if closed.is_outermost { &self.total } else { &self.recursive };
        sum.add(closed.elapsed);
        self.children.add(closed.children);
        // Below `usual` the difference wraps to more than any range; so it does for the first two
        // calls, when `usual` still is the largest of all numbers, and for a span below 0.
        let above = closed.elapsed.wrapping_sub(self.usual.get());
        let is_usual = above <= u64::from(self.range.load(Ordering::Relaxed));
        if is_usual && self.distribution.record_near(closed.elapsed) {
            Ok(())
        } else {
            self.record_unusual(closed.elapsed, closed.started)
        }
    }

    /// Records the duration of the first call, or of one that is shorter or longer than all others,
    /// or not near in the distribution, or has something to carry there.
    #[cold]
    #[inline(never)]
    fn record_unusual(&self, elapsed: u64, started: u64) -> Result<(), NeverStarted> {
        let elapsed = span(elapsed);
        if self.distribution.is_empty() && self.firsts.get() & FIRST == 0 {
            self.first.set(elapsed);
            self.first_started.set(started);
            self.firsts.publish(self.firsts.get() | FIRST);
            return Ok(());
        }
        let is_usual_changed = self.distribution.record(elapsed, || {
            // Until it is known what is, for a signal handler.
            self.usual.set(u64::MAX);
            self.range.store(0, Ordering::Relaxed);
        });
        if is_usual_changed {
            let usual = self.distribution.usual();
            let range = usual.end().saturating_sub(*usual.start());
            self.usual.set(*usual.start());
            self.range.store(u32::try_from(range).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
        Ok(())
    }

    /// A copy for a report. Any thread may call this.
    fn snapshot(&self) -> Option<RowSnapshot> {
        let distribution = self.distribution.distribution();
        let firsts = self.firsts.get_published() & FIRST;
        let (min, max) = self.distribution.extremes();
        (firsts > 0).then(|| RowSnapshot {
            count: firsts + distribution.total(),
            total: span(self.total.get()),
            own: span(
                self.total
                    .get()
                    .wrapping_add(self.recursive.get())
                    .wrapping_sub(self.children.get()),
            ),
            recursive: span(self.recursive.get()),
            first: self.first.get(),
            first_started: self.first_started.get(),
            around: self.around(),
            min,
            max,
            distribution,
        })
    }
}

/// A copy of a [`Row`], or of the rows of one action on several threads.
#[derive(Debug, Clone)]
pub(crate) struct RowSnapshot {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) own: u64,
    /// Of calls inside a call of the same action, which are not in `total`.
    pub(super) recursive: u64,
    pub(super) first: u64,
    pub(super) first_started: u64,
    /// What the first call was made inside of.
    pub(super) around: Option<Action>,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) distribution: Distribution,
}

impl RowSnapshot {
    /// Adds the row of another thread. The first call of both is the one that began earlier; the
    /// other one's becomes one of the rest.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.total += other.total;
        self.own += other.own;
        self.recursive += other.recursive;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.distribution.merge(&other.distribution);
        let mut later = other.first;
        if other.first_started < self.first_started {
            later = std::mem::replace(&mut self.first, other.first);
            self.first_started = other.first_started;
            self.around = other.around;
        }
        self.min = self.min.min(later);
        self.max = self.max.max(later);
        self.distribution.add(later);
    }
}

/// Rows are found without a search for so many of the first actions of the process.
const NEAR: usize = 256;

/// *Memory*: 2 kB, and 320 bytes with each action and 16 to 64 for its slots in `index`.
pub(crate) struct SimpleTable {
    stack: Stack<Row>,
    rows: Arena<Row>,
    /// Those of all rows.
    octaves: Arc<Octaves>,
    index: ActionIndex<Row>,
}

impl SimpleTable {
    /// The row of an action, made on its first use.
    fn row(&self, action: Action) -> &Row {
        self.index.get(action).unwrap_or_else(|| {
            let row = self.rows.add(Row::new(action, self.stack.innermost(), &self.octaves));
            // SAFETY: rows live as long as the table, whose index is dropped with them.
            unsafe { self.index.insert(row) };
            row
        })
    }
}

impl Table for SimpleTable {
    type Snapshot = HashMap<Action, RowSnapshot>;
    type Record = Row;

    const KIND: Kind = Kind::Rows;

    fn new() -> Self {
        let index = ActionIndex::with_slots(NEAR);
        Self { stack: Stack::new(), rows: Arena::new(), octaves: Arc::default(), index }
    }

    #[inline(always)]
    fn start(&self, action: Action, clock: &Clock) {
        match (self.index.get_slot(action), self.stack.room()) {
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
        let row = self.row(action);
        let is_recursive = row.is_open();
        row.open(action);
        self.stack.push_any(action, row, is_recursive, || clock.now());
    }

    #[inline(always)]
    fn stop(
        &self,
        action: Action,
        elsewhere: impl FnOnce() -> Result<(), NeverStarted>,
    ) -> Result<(), NeverStarted> {
        match self.stack.pop(action, counter()) {
            Some(closed) => {
                // SAFETY: `start` pushed a record of `self.rows`, which lives as long as this table.
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
        // A scope that is overtaken is on its own, and those that follow are not inside of it.
        let on_detach = |scope: &Overtaken<Row>| {
            if !scope.is_recursive {
                // SAFETY: as in `stop`.
                unsafe { &*scope.record }.close(scope.action);
            }
        };
        let Some(closed) = self.stack.pop_any(action, clock.now(), on_detach) else {
            return false;
        };
        // SAFETY: as in `stop`.
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
    /// The row of this place: an action has one, so its number is as good as any.
    fn row_at(&self, place: usize) -> Option<&Row> {
        self.index.get(Action::from_number(u32::try_from(place).ok()?)?)
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
            self.index.get(*action).and_then(around)
        })
    }

    fn ticks(&self, place: usize) -> Option<ActionTicks> {
        let row = self.row_at(place)?;
        (row.firsts.get() & FIRST > 0).then(|| ActionTicks {
            total: span(row.total.get()),
            children: span(row.children.get()),
            first_started: row.first_started.get(),
        })
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    fn race(
        durations: &'static [u64],
        read: impl Fn(&Row) + Copy + Send + Sync + 'static,
    ) -> usize {
        let orders = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = orders.clone();
        let action = Action::new("loom-row");
        loom::model(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let row = Arc::new(Row::new(action, None, &std::sync::Arc::default()));
            // The reader is spawned, not the writer: see the tests of the stack.
            let reader = {
                let row = row.clone();
                thread::spawn(move || read(&row))
            };
            for (&elapsed, started) in durations.iter().zip(1..) {
                let (is_outermost, is_detached) = (true, false);
                let (record, children) = (std::ptr::null(), 0);
                let closed =
                    Closed { record, started, elapsed, children, is_outermost, is_detached };
                assert!(row.record(closed).is_ok());
            }
            reader.join().expect("reader");
        });
        orders.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Whatever a reader sees of a row while it is written has at least the counted calls in it.
    #[test]
    fn a_count_never_runs_ahead_of_what_it_counts() {
        let orders = race(&[10, 10], |row| {
            let Some(seen) = row.snapshot() else { return };
            assert!(seen.total >= 10 * seen.count, "{seen:?}");
            assert!(seen.first_started == 1 && seen.first == 10, "{seen:?}");
            assert!(seen.count < 2 || seen.min == 10, "{seen:?}");
        });
        assert!(orders > 20, "{orders} orders");
    }

    /// The shortest and the longest are around all that a reader finds in the distribution.
    #[test]
    fn a_distribution_never_runs_ahead_of_its_extremes() {
        let orders = race(&[7, 20, 5], |row| {
            let Some(seen) = row.snapshot() else { return };
            let (shortest, longest) =
                (seen.distribution.quantile(0.0), seen.distribution.quantile(1.0));
            let is_empty = seen.distribution.total() == 0;
            assert!(is_empty || (seen.min / 2 <= shortest && longest <= 2 * seen.max), "{seen:?}");
            assert!(is_empty || seen.min <= seen.max, "{seen:?}");
        });
        assert!(orders > 20, "{orders} orders");
    }
}
