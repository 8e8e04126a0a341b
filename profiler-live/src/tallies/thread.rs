//! What one thread does, written by it alone.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use profiler_core::Action;
use profiler_events::forking::{Mutex, MutexGuard};
use profiler_events::{ThreadName, names, uncounted};

use super::Tallies;
use super::durations::Durations;
use super::places::{NO_ROOM, OUTSIDE, Places};

/// A thread that has been heard of. Its lock is its own, but for who reads.
pub(super) struct OfThread {
    pub(super) name: String,
    table: Mutex<Table>,
}

/// What is known of a thread.
#[derive(Default)]
pub(super) struct Table {
    pub(super) open: Vec<Open>,
    known: HashMap<(u32, Action), Known>,
    /// By place.
    pub(super) sums: Vec<Durations>,
    /// For how long it has waited for data since it was last asked.
    waited: Duration,
    /// So many calls there was no room for.
    pub(super) left_out: u64,
}

#[derive(Clone, Copy)]
struct Known {
    place: u32,
    is_waiting_for_data: bool,
}

/// An action that has begun.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) action: Action,
    known: Known,
    pub(super) began: Instant,
}

impl OfThread {
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn start(&mut self, action: Action, places: &Mutex<Places>) {
        let around = self.open.last().map_or(OUTSIDE, |open| open.known.place);
        let known = self.known.get(&(around, action)).copied().unwrap_or_else(|| {
            let place =
                places.lock().unwrap_or_else(PoisonError::into_inner).number(around, action);
            let is_waiting_for_data = names::is_waiting_for_data(action.name());
            let known = Known { place, is_waiting_for_data };
            if place != NO_ROOM {
                self.known.insert((around, action), known);
            }
            known
        });
        self.open.push(Open { action, known, began: Instant::now() });
    }

    fn stop(&mut self, action: Action) {
        // What has begun before anybody looked is not there.
        let Some(depth) = self.open.iter().rposition(|open| open.action == action) else { return };
        let open = self.open[depth];
        self.open.truncate(depth);
        let took = open.began.elapsed();
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
        self.sums[place].add(took.as_nanos() as u64); // centuries
    }

    pub(super) fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }
}

/// The calling thread's, in whoever tallies now.
struct Here {
    number: u64,
    thread: Arc<OfThread>,
    tallies: Weak<Tallies>,
}

impl Drop for Here {
    fn drop(&mut self) {
        if let Some(tallies) = self.tallies.upgrade() {
            uncounted(|| tallies.thread_has_ended(&self.thread));
        }
    }
}

thread_local! {
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
}

impl Tallies {
    /// Has something done with the calling thread's table; nothing where the thread is being torn down.
    pub(super) fn here<R>(self: &Arc<Self>, work: impl FnOnce(&mut Table) -> R) -> Option<R> {
        let work = |here: &RefCell<Option<Here>>| {
            let mut here = here.try_borrow_mut().ok()?;
            if here.as_ref().is_none_or(|it| it.number != self.number) {
                let name = ThreadName::of_this_thread().name;
                let thread = Arc::new(OfThread { name, table: Mutex::default() });
                self.thread_begins(&thread)?;
                *here = Some(Here { number: self.number, thread, tallies: Arc::downgrade(self) });
            }
            let thread = &here.as_ref()?.thread;
            Some(work(&mut thread.table()))
        };
        uncounted(|| HERE.try_with(work).ok().flatten())
    }

    /// An action begins on this thread.
    pub(crate) fn start(self: &Arc<Self>, action: Action) {
        self.here(|table| table.start(action, &self.places));
    }

    /// An action ends on this thread.
    pub(crate) fn stop(self: &Arc<Self>, action: Action) {
        self.here(|table| table.stop(action));
    }

    /// Whether this thread is in an action.
    pub(crate) fn is_open(self: &Arc<Self>, action: Action) -> bool {
        self.here(|table| table.open.iter().any(|open| open.action == action)).unwrap_or(false)
    }

    /// For how long this thread has waited for data since this was last asked.
    pub(crate) fn take_waited(self: &Arc<Self>) -> Option<Duration> {
        self.here(Table::take_waited)
    }
}
