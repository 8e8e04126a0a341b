//! Per-thread cache of the active profiler. A lock is needed only after the set of active profilers
//! has changed.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Weak};

use super::activations::{Activation, Activations, Key, ReportTarget};
use super::owner::Place;
use crate::forked_child;
use crate::guarded::guarded;
use crate::profiler::{Profiler, guarded_profiler};
use mlprof_events::forking;
use mlprof_events::{Action, Interest, uncounted};
use mlprof_events::{UnattributedReason, WorkCounts};

/// A thread's own reference to a profiler, so that threads do not contend for a reference count.
struct Reference {
    generation: u64,
    profiler: Arc<dyn Profiler>,
    wish: Arc<AtomicU16>,
}

/// Counter for events that no training receives, and the interest of the training that may miss
/// them.
struct Uncounted {
    wish: Arc<AtomicU16>,
    counts: Arc<WorkCounts>,
}

struct ThreadView {
    /// Profiler that this thread reports to.
    current: Option<Reference>,
    /// Set when the profiler may not want all events of the combined interest.
    is_selective: bool,
    /// Other active profilers under which this thread has opened scopes.
    earlier: Vec<Reference>,
    /// The latest profilers that are no longer active. Scopes opened under them may still be open.
    ended: Vec<(u64, Weak<dyn Profiler>)>,
    /// Trainings that may miss events of this thread.
    unattributed: Vec<Uncounted>,
}

pub(super) struct Thread {
    /// Key of the active profilers when `seen` was looked up.
    key: Cell<Key>,
    seen: RefCell<ThreadView>,
    pub(super) place: Place,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            key: Cell::new(Key::NONE),
            seen: RefCell::new(ThreadView {
                current: None,
                is_selective: false,
                earlier: Vec::new(),
                ended: Vec::new(),
                unattributed: Vec::new(),
            }),
            place: Place::new(),
        }
    };
}

/// Runs `work` with the calling thread's cache. Returns `None` while the thread is being torn down.
pub(super) fn with<T>(work: impl FnOnce(&Thread) -> T) -> Option<T> {
    THREAD.try_with(work).ok()
}

/// Origin of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Teller {
    /// A scope of the program. A signal handler or the program's allocator may open it while this
    /// thread holds one of the profiler's locks. In that case the active profiler is not looked up.
    Scope,
    /// A hook that delivers earlier events from a suitable place.
    Delivery,
}

/// Runs `tell` with the profiler that the calling thread reports to, if it wants `interest`.
/// Returns the profiler's generation, or `None` if no profiler received the event.
#[inline(never)]
pub(super) fn tell(
    key: Key,
    interest: Interest,
    teller: Teller,
    tell: impl FnOnce(&dyn Profiler, Interest),
) -> Option<u64> {
    let told = THREAD.try_with(|thread| {
        // The borrow is exclusive while the profiler works. A scope that the profiler itself opens
        // is therefore not measured, which would never end.
        let mut seen = thread.seen.try_borrow_mut().ok()?;
        if thread.key.get() != key {
            drop(seen);
            if teller == Teller::Scope && forking::is_at_work() {
                return None;
            }
            thread.look_up(teller)?;
            seen = thread.seen.try_borrow_mut().ok()?;
        }
        let mut wish = Interest::ALL;
        if seen.is_selective {
            wish = seen.select(interest)?;
        }
        let current = seen.current.as_ref()?;
        tell(&*current.profiler, wish);
        Some(current.generation)
    });
    told.ok().flatten()
}

/// Works like [`tell`] on a thread that has already destroyed its cache, because a destructor of
/// thread-local data opens a scope. The profiler counts scopes that it cannot record at that time.
#[cold]
#[inline(never)]
pub(super) fn tell_late(interest: Interest, tell: impl FnOnce(&dyn Profiler)) -> Option<u64> {
    if THREAD.try_with(|_| ()).is_ok() {
        return None;
    }
    // A profiler that opens a scope itself would recurse without end.
    let _alone = Alone::begin()?;
    let told = uncounted(|| {
        let activations = Activations::lock();
        match activations.look_up(None).1 {
            ReportTarget::To(activation) => Some(activation.clone()),
            ReportTarget::Nobody(reason) => {
                if let Some(reason) = reason {
                    activations.tops().for_each(|top| top.uncounted(reason).counts.add(interest));
                }
                activations.beside().cloned()
            }
        }
    });
    let told = told.filter(|told| told.wish().contains(interest))?;
    tell(&*told.told);
    Some(told.generation)
}

#[cold]
#[inline(never)]
fn stop_late(generation: u64, action: Action) {
    let Some(_alone) = Alone::begin() else { return };
    let told = uncounted(|| {
        let activations = Activations::lock();
        activations.all().find(|entry| entry.generation == generation).cloned()
    });
    if let Some(told) = told {
        let _ = told.told.stop(action);
    }
}

/// Guard for a lookup of the active profiler on a thread that ends. It can be taken only if the
/// thread holds none of the profiler's locks, because the caller may be a signal handler or the
/// program's allocator.
struct Alone;

thread_local!(static IS_ALONE: Cell<bool> = const { Cell::new(false) });

impl Alone {
    fn begin() -> Option<Self> {
        let is_alone = !forking::is_at_work() && !IS_ALONE.replace(true);
        is_alone.then(|| Self)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        IS_ALONE.set(false);
    }
}

/// Runs `tell` with each of these profilers. The borrow is exclusive, so scopes that they open are
/// not measured.
pub(super) fn tell_each(profilers: &[Arc<dyn Profiler>], tell: impl Fn(&dyn Profiler)) {
    with(|thread| {
        let _exclusive = thread.seen.try_borrow_mut().ok()?;
        profilers.iter().for_each(|profiler| tell(&**profiler));
        Some(())
    });
}

/// Runs `work`. Events of this thread are not reported meanwhile.
pub(super) fn unseen<T>(work: impl FnOnce() -> T) -> T {
    let is_torn_down = with(|_| ()).is_none();
    if is_torn_down {
        // A thread that is being torn down reports no events.
        return work();
    }
    THREAD.with(|thread| {
        // The borrow fails if a profiler is already at work, which also suppresses events.
        let _exclusive = thread.seen.try_borrow_mut();
        work()
    })
}

/// Returns `true` if the calling thread belongs to no known training.
pub(super) fn is_unattributed(key: Key) -> bool {
    let is_unattributed = with(|thread| {
        if thread.key.get() != key {
            thread.look_up(Teller::Delivery)?;
        }
        Some(!thread.seen.try_borrow().ok()?.unattributed.is_empty())
    });
    is_unattributed.flatten().unwrap_or(false)
}

/// Stops an action that the calling thread has opened under `generation`.
#[inline(never)]
pub(super) fn stop(generation: u64, action: Action) {
    let stopped = THREAD.try_with(|thread| {
        let Ok(seen) = thread.seen.try_borrow() else { return };
        // This is nearly always the current profiler. It is an earlier one if another profiler was
        // activated in between.
        let current = seen.current.as_ref().filter(|own| own.generation == generation);
        let earlier = || seen.earlier.iter().rfind(|own| own.generation == generation);
        match current.or_else(earlier) {
            Some(own) => drop(own.profiler.stop(action)),
            None => seen.stop_ended(generation, action),
        }
    });
    if stopped.is_err() {
        stop_late(generation, action);
    }
}

/// Returns `true` if the calling thread is inside a profiler call made by this module.
#[inline(always)]
pub(crate) fn is_in_profiler() -> bool {
    THREAD.try_with(|thread| thread.seen.try_borrow_mut().is_err()).unwrap_or(false)
}

/// Drops this thread's reference early. Other threads drop theirs when they next open a scope.
pub(super) fn forget(generation: u64) {
    let gone = with(|thread| {
        let mut seen = thread.seen.try_borrow_mut().ok()?;
        let gone = match seen.current.take_if(|own| own.generation == generation) {
            Some(current) => {
                thread.look_again();
                current
            }
            None => {
                let position = seen.earlier.iter().position(|own| own.generation == generation)?;
                seen.earlier.remove(position)
            }
        };
        seen.remember(&gone);
        Some(gone)
    });
    drop(gone); // outside the borrow: a profiler's own destructor may open scopes
}

/// Drops all profiler references of the calling thread, for threads that wait and open no scopes.
#[doc(hidden)]
pub fn let_go() {
    let gone = with(|thread| {
        let mut seen = thread.seen.try_borrow_mut().ok()?;
        thread.look_again();
        Some((seen.current.take(), std::mem::take(&mut seen.earlier)))
    });
    drop(gone); // outside the borrow, as above
}

/// Maximum number of profilers that a thread remembers after they have ended.
const MOST_ENDED: usize = 16;

impl ThreadView {
    /// Remembers an ended activation, because a guard may outlive the activation under which it was
    /// opened.
    fn remember(&mut self, gone: &Reference) {
        uncounted(|| {
            self.ended.retain(|(_, profiler)| profiler.strong_count() > 0);
            if self.ended.len() == MOST_ENDED {
                self.ended.remove(0);
            }
            // The guarding wrapper around a program's profiler ends with the activation. The
            // profiler itself may continue to exist.
            let profiler = guarded_profiler(&*gone.profiler).unwrap_or(&gone.profiler);
            self.ended.push((gone.generation, Arc::downgrade(profiler)));
        });
    }

    /// Stops an action that was opened under an ended activation, if its profiler still exists.
    #[cold]
    #[inline(never)]
    fn stop_ended(&self, generation: u64, action: Action) {
        let ended = self.ended.iter().rfind(|ended| ended.0 == generation);
        if let Some(profiler) = ended.and_then(|(_, profiler)| profiler.upgrade()) {
            let _ = guarded(profiler).stop(action);
        }
    }

    /// Returns the interest of the current profiler if it contains all of `interest`. Also counts
    /// the event for the trainings that do not receive it.
    #[cold]
    fn select(&self, interest: Interest) -> Option<Interest> {
        for training in &self.unattributed {
            if wish(&training.wish).contains(interest) {
                training.counts.add(interest);
            }
        }
        let current = self.current.as_ref()?;
        Some(wish(&current.wish)).filter(|wish| wish.contains(interest))
    }
}

fn wish(bits: &AtomicU16) -> Interest {
    Interest::from_bits(bits.load(Ordering::Relaxed))
}

impl Thread {
    /// Forces a new lookup of the profiler that receives this thread's events.
    pub(super) fn look_again(&self) {
        self.key.set(Key::NONE);
    }

    /// Updates this thread's reference to the profiler that it reports to, and drops references to
    /// ended ones. Returns `None` if a profiler opens a scope inside its own `start` while the
    /// references are in use.
    #[cold]
    #[inline(never)]
    fn look_up(&self, teller: Teller) -> Option<()> {
        if forked_child::is_due() {
            uncounted(forked_child::catch_up);
            Activations::lock().publish();
        }
        let gone = uncounted(|| {
            let owner = self.place.owner();
            let activations = Activations::lock();
            let (key, told) = activations.look_up(owner.as_ref());
            let (told, reason) = match told {
                ReportTarget::To(activation) => (Some(activation), None),
                ReportTarget::Nobody(reason) => (activations.beside(), reason),
            };
            if let (Teller::Scope, Some(activation)) = (teller, told) {
                activation.is_used.store(true, Ordering::Relaxed);
            }
            let current = told.map(Activation::reference);
            let unattributed: Vec<_> = match reason {
                Some(reason) => activations.tops().map(|top| top.uncounted(reason)).collect(),
                None => Vec::new(),
            };
            let is_selective = key.is_several()
                || !unattributed.is_empty()
                || (told.is_some() && told.map(number) == activations.beside().map(number));
            let generations: Vec<_> = activations.all().map(|entry| entry.generation).collect();
            drop(activations);
            let generation = current.as_ref().map(|own| own.generation);
            let mut seen = self.seen.try_borrow_mut().ok()?;
            let (kept, gone): (Vec<_>, Vec<_>) =
                seen.earlier.drain(..).partition(|own| generations.contains(&own.generation));
            let before = std::mem::replace(&mut seen.current, current);
            seen.earlier = kept;
            seen.earlier.retain(|own| Some(own.generation) != generation);
            seen.is_selective = is_selective;
            seen.unattributed = unattributed;
            let mut gone = gone;
            match before {
                Some(own) if Some(own.generation) == generation => {}
                Some(own) if generations.contains(&own.generation) => seen.earlier.push(own),
                before => gone.extend(before),
            }
            gone.iter().for_each(|gone| seen.remember(gone));
            self.key.set(key);
            Some(gone)
        })?;
        drop(gone); // outside the lock and the borrow: a destructor may open scopes
        Some(())
    }
}

fn number(activation: &Activation) -> u64 {
    activation.number
}

impl Activation {
    fn reference(&self) -> Reference {
        Reference {
            generation: self.generation,
            profiler: self.told.clone(),
            wish: self.wish.clone(),
        }
    }

    fn uncounted(&self, reason: UnattributedReason) -> Uncounted {
        Uncounted {
            wish: self.wish.clone(),
            counts: self.unattributed.counts_of_this_thread(reason),
        }
    }
}
