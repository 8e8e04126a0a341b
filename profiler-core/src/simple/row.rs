//! Aggregated calls of one action on one thread.

use std::sync::Arc;

use super::distribution::Distribution;
use super::histogram::{Histogram, Octaves};
use crate::NeverStarted;
use crate::recorder::index::Named;
use crate::recorder::stack::{Closed, span, was_set_back};
use crate::recorder::steps::ActionTicks;
use mlprof_events::Action;
use mlprof_events::sync::{AtomicU32, Ordering, Tally};

/// Calls of one action on one thread. Times are in ticks.
///
/// The row has no count of calls: `firsts` holds the first call, and the distribution holds the
/// others.
///
/// *Invariant*: written only by the owning thread. A call is published last. A reader that reads
/// the distribution first and then `firsts` finds at least that many calls in the other tallies.
/// `min` and `max` then enclose all durations in the distribution.
#[repr(C, align(64))]
pub(crate) struct Row {
    // The fields up to the beginning of the distribution share one cache line. Nearly every call
    // touches only this line.
    /// Ticks of all calls that were not made inside a call of the same action.
    total: Tally,
    /// Part of all calls' ticks that was spent in scopes directly inside.
    children: Tally,
    /// Shortest usual duration in ticks. Durations from here up to `range` more are usual for the
    /// distribution, so that one comparison is enough.
    usual: Tally,
    range: AtomicU32,
    /// The [number](Action::number) of the action, with [`OPEN`] while a call is open that enclosed
    /// calls would recurse into. Only the owning thread uses it.
    state: AtomicU32,
    /// Durations of all calls except the first.
    distribution: Histogram,
    /// [`FIRST`] after the first call. The bits from [`AROUND`] up hold the
    /// [number](Action::number) of the action around the first call, or 0 if it was outside of all
    /// actions.
    firsts: Tally,
    first: Tally,
    first_started: Tally,
    /// Ticks of calls that were made inside a call of the same action.
    recursive: Tally,
}

const _: () = {
    let end = std::mem::offset_of!(Row, distribution) + Histogram::BYTES_OF_NEAR;
    assert!(end <= 64 || cfg!(loom), "more than one cache line for each name that is used in turn");
};

/// Bit and shift in `firsts` of a [`Row`].
const FIRST: u64 = 1;
const AROUND: u32 = 32;

/// Flag in the state of a [`Row`]. Action numbers are always smaller.
const OPEN: u32 = 1 << 31;

impl Named for Row {
    #[inline(always)]
    fn number(&self) -> u32 {
        self.state() & !OPEN
    }
}

impl Row {
    pub(super) fn new(action: Action, around: Option<Action>, octaves: &Arc<Octaves>) -> Self {
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

    pub(super) fn action(&self) -> Option<Action> {
        Action::from_number(self.number())
    }

    #[inline(always)]
    fn state(&self) -> u32 {
        self.state.load(Ordering::Relaxed)
    }

    /// Returns `true` if this is the row of `action` and no call is open.
    #[inline(always)]
    pub(super) fn is_closed(&self, action: Action) -> bool {
        self.state() == action.number()
    }

    /// Returns the action around the first call.
    pub(super) fn around(&self) -> Option<Action> {
        Action::from_number((self.firsts.get() >> AROUND) as u32)
    }

    pub(super) fn is_open(&self) -> bool {
        self.state() & OPEN != 0
    }

    #[inline(always)]
    pub(super) fn open(&self, action: Action) {
        self.state.store(action.number() | OPEN, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn close(&self, action: Action) {
        self.state.store(action.number(), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn record(&self, closed: Closed<Self>) -> Result<(), NeverStarted> {
        let sum = if closed.is_outermost { &self.total } else { &self.recursive };
        sum.add(closed.elapsed);
        self.children.add(closed.children);
        // Below `usual` the subtraction wraps to more than any range. This also covers the first
        // two calls, when `usual` is still the maximum, and spans below 0.
        let above = closed.elapsed.wrapping_sub(self.usual.get());
        let is_usual = above <= u64::from(self.range.load(Ordering::Relaxed));
        if is_usual && self.distribution.record_near(closed.elapsed) {
            Ok(())
        } else {
            self.record_unusual(&closed)
        }
    }

    /// Records a duration that the fast path cannot take. It is the first call, a new extreme, a
    /// far duration, or a near one that needs a carry.
    #[cold]
    #[inline(never)]
    fn record_unusual(&self, closed: &Closed<Self>) -> Result<(), NeverStarted> {
        if was_set_back(closed.elapsed) {
            self.take_back(closed);
        }
        let (elapsed, started) = (span(closed.elapsed), closed.started);
        if self.distribution.is_empty() && self.firsts.get() & FIRST == 0 {
            self.first.set(elapsed);
            self.first_started.set(started);
            self.firsts.publish(self.firsts.get() | FIRST);
            return Ok(());
        }
        let is_usual_changed = self.distribution.record(elapsed, || {
            // No duration is usual during the move, because a signal handler may record meanwhile.
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

    /// Removes a call from the sums if the counter was set back during it. The call then counts
    /// with a duration of 0, as in the distribution.
    fn take_back(&self, closed: &Closed<Self>) {
        let sum = if closed.is_outermost { &self.total } else { &self.recursive };
        sum.set(sum.get().wrapping_sub(closed.elapsed));
        self.children.set(self.children.get().wrapping_sub(closed.children));
    }

    /// Returns the totals so far, or `None` before the first call has ended. Only the owning thread
    /// may call this.
    pub(super) fn ticks(&self) -> Option<ActionTicks> {
        (self.firsts.get() & FIRST > 0).then(|| ActionTicks {
            total: span(self.total.get()),
            children: span(self.children.get()),
            first_started: self.first_started.get(),
        })
    }

    /// Returns a copy for a report. Any thread may call this.
    pub(super) fn snapshot(&self) -> Option<RowSnapshot> {
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

/// Copy of a [`Row`], or the sum of the rows of one action on several threads.
#[derive(Debug, Clone)]
pub(crate) struct RowSnapshot {
    pub(super) count: u64,
    pub(super) total: u64,
    pub(super) own: u64,
    /// Ticks of calls inside a call of the same action, which are not in `total`.
    pub(super) recursive: u64,
    pub(super) first: u64,
    pub(super) first_started: u64,
    /// Action around the first call.
    pub(super) around: Option<Action>,
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) distribution: Distribution,
}

impl RowSnapshot {
    /// Adds the row of another thread. The first call that began earlier stays the first; the other
    /// one becomes one of the rest.
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
            // The reader is the spawned thread, for the reason given in the loom tests of the
            // stack.
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

    /// Checks that a row read during writes includes at least the calls that it counts.
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

    /// Checks that the extremes enclose all durations that a reader finds in the distribution.
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn close(row: &Row, elapsed: i64, children: i64) {
        let closed = Closed {
            record: std::ptr::null(),
            started: 1,
            elapsed: elapsed.cast_unsigned(),
            children: children.cast_unsigned(),
            is_outermost: true,
            is_detached: false,
        };
        row.record(closed).expect("it was started");
    }

    #[test]
    fn a_call_in_which_the_counter_was_set_back_takes_no_time_from_the_others() {
        let row = Row::new(Action::new("set-back"), None, &Arc::default());
        let back = -30_000_000_000_000;
        for (elapsed, children) in
            [(5_000, 1_000), (7_000, 2_000), (back, back), (6_000, 0), (back, 0)]
        {
            close(&row, elapsed, children);
        }
        // The counters of two cores may differ by a few ticks. The sums stay correct.
        close(&row, -3, 0);
        let snapshot = row.snapshot().expect("it was called");
        assert_eq!(snapshot.count, 6);
        assert_eq!((snapshot.total, snapshot.own), (17_997, 14_997));
        assert_eq!((snapshot.min, snapshot.max), (0, 7_000));
    }
}
