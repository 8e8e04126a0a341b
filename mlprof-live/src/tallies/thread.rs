//! Actions of one thread, written only by that thread.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mlprof_core::Action;
use mlprof_events::clock::Clock;
use mlprof_events::{ThreadName, names, uncounted};
use rustc_hash::FxHashMap;

use super::durations::Durations;
use super::places::{NO_ROOM, OUTSIDE};
use super::{Tallies, lock};

/// Thread that has recorded at least one action.
pub(super) struct OfThread {
    pub(super) name: String,
    /// Table of the thread; other threads only lock it to read. A forked child never locks a table
    /// of its parent, so this mutex need not be [fork-safe](mlprof_events::forking).
    table: Mutex<Table>,
}

/// Counts of one thread.
pub(super) struct Table {
    clock: Clock,
    pub(super) open: Vec<Open>,
    known: FxHashMap<(u32, Action), KnownAction>,
    /// Durations, indexed by place.
    pub(super) sums: Vec<Durations>,
    /// Ticks spent waiting for data since the last call of `take_waited`.
    waited: u64,
    /// Number of calls without a place.
    pub(super) left_out: u64,
}

#[derive(Clone, Copy)]
struct KnownAction {
    place: u32,
    is_waiting_for_data: bool,
}

/// Action that has begun and not ended.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) action: Action,
    known: KnownAction,
    /// Start time in clock ticks.
    pub(super) began: u64,
}

impl OfThread {
    /// Creates the entry of the calling thread.
    fn this() -> Self {
        let table = Table {
            clock: Clock::new(),
            open: Vec::new(),
            known: FxHashMap::default(),
            sums: Vec::new(),
            waited: 0,
            left_out: 0,
        };
        Self { name: ThreadName::of_this_thread().name, table: Mutex::new(table) }
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn start(&mut self, action: Action, tallies: &Weak<Tallies>) {
        let around = self.open.last().map_or(OUTSIDE, |open| open.known.place);
        let known = match self.known.get(&(around, action)) {
            Some(known) => *known,
            None => self.get_to_know(around, action, tallies),
        };
        self.open.push(Open { action, known, began: self.clock.now() });
    }

    #[cold]
    fn get_to_know(&mut self, around: u32, action: Action, tallies: &Weak<Tallies>) -> KnownAction {
        let number = |tallies: Arc<Tallies>| lock(&tallies.places).number(around, action);
        let place = tallies.upgrade().map_or(NO_ROOM, number);
        let is_waiting_for_data = names::is_waiting_for_data(action.name());
        let known = KnownAction { place, is_waiting_for_data };
        if place != NO_ROOM {
            self.known.insert((around, action), known);
        }
        known
    }

    fn stop(&mut self, action: Action) {
        let now = self.clock.now();
        // An action that began before following started is not in the list.
        let Some(depth) = self.open.iter().rposition(|open| open.action == action) else { return };
        let open = self.open[depth];
        self.open.truncate(depth);
        let took = now.saturating_sub(open.began);
        if open.known.is_waiting_for_data
            && !self.open.iter().any(|outer| outer.known.is_waiting_for_data)
        {
            self.waited += took;
        }
        if open.known.place == NO_ROOM {
            self.left_out += 1;
            return;
        }
        let place = open.known.place as usize;
        if self.sums.len() <= place {
            self.sums.resize_with(place + 1, Durations::default);
        }
        self.sums[place].add(took);
    }

    pub(super) fn is_open(&self, action: Action) -> bool {
        self.open.iter().any(|open| open.action == action)
    }

    /// Returns the ticks spent waiting for data since the last call, and resets them.
    pub(super) fn take_waited(&mut self) -> u64 {
        std::mem::take(&mut self.waited)
    }
}

/// Link from the calling thread to its entry in the active tallies.
struct ThreadLink {
    number: u64,
    forks: u32,
    /// Entry of the thread; `None` if the maximum number of threads is reached.
    thread: Option<Arc<OfThread>>,
    tallies: Weak<Tallies>,
}

impl ThreadLink {
    fn begin(tallies: &Arc<Tallies>) -> Self {
        let thread = Arc::new(OfThread::this());
        let thread = tallies.thread_begins(&thread).map(|()| thread);
        let Tallies { number, forks, .. } = **tallies;
        Self { number, forks, thread, tallies: Arc::downgrade(tallies) }
    }
}

impl Drop for ThreadLink {
    fn drop(&mut self) {
        // In a forked child, the parent's tallies are not touched. Their locks may have been held
        // by another thread at the time of the fork.
        let tallies = self.tallies.upgrade().filter(|tallies| tallies.is_of_this_process());
        if let Some((tallies, thread)) = tallies.zip(self.thread.as_ref()) {
            uncounted(|| tallies.thread_has_ended(thread));
        }
    }
}

thread_local! {
    static HERE: RefCell<Option<ThreadLink>> = const { RefCell::new(None) };
}

/// Calls `work` with the calling thread's table in the tallies with this number. `tallies` returns
/// these tallies, and is called only if the thread has no entry in them yet. Returns `None` if the
/// thread is being torn down.
#[inline]
pub(super) fn with_table<R>(
    number: u64,
    tallies: impl FnOnce() -> Option<Arc<Tallies>>,
    work: impl FnOnce(&mut Table, &Weak<Tallies>) -> R,
) -> Option<R> {
    let work = |here: &RefCell<Option<ThreadLink>>| {
        let mut here = here.try_borrow_mut().ok()?;
        let is_known = |it: &ThreadLink| it.number == number && it.forks == super::forks();
        if !here.as_ref().is_some_and(is_known) {
            *here = Some(ThreadLink::begin(&tallies()?));
        }
        let here = here.as_ref()?;
        Some(work(&mut here.thread.as_ref()?.table(), &here.tallies))
    };
    uncounted(|| HERE.try_with(work).ok().flatten())
}

impl Tallies {
    /// Calls `work` with the calling thread's table. Returns `None` if the thread is being torn
    /// down.
    pub(super) fn here<R>(self: &Arc<Self>, work: impl FnOnce(&mut Table) -> R) -> Option<R> {
        with_table(self.number, || Some(self.clone()), |table, _| work(table))
    }
}

/// Records the start of an action on this thread.
#[inline]
pub(super) fn start(number: u64, tallies: impl FnOnce() -> Option<Arc<Tallies>>, action: Action) {
    with_table(number, tallies, |table, tallies| table.start(action, tallies));
}

/// Records the end of an action on this thread.
#[inline]
pub(super) fn stop(number: u64, tallies: impl FnOnce() -> Option<Arc<Tallies>>, action: Action) {
    with_table(number, tallies, |table, _| table.stop(action));
}
