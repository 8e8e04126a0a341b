//! Who a thread's scopes belong to.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::owner::{IsOwn, Owner};
use super::thread;

/// Whose scopes a thread's are, to be taken along to other threads.
///
/// With one profiler active in the process there is nothing to bind: every thread reports to it. When
/// two trainings run at once, each with a profiler of its own, a thread reports to the one that was
/// activated on it, or to that of the thread it is bound to. What threads do that are bound to no one
/// training is counted, and said in the reports of both.
///
/// mlprof's trainers and plugins bind the threads that they start. For threads of your own:
///
/// ```
/// use mlprof_core::{Binding, bound, profile};
///
/// // A thread that lives for one piece of work:
/// let loader = std::thread::spawn(bound(|| {
///     let _scope = profile!("load");
/// }));
/// # loader.join().unwrap();
///
/// // Workers that many share, as those of a pool: for each piece of work.
/// let binding = Binding::current();
/// let work = |item: u32| {
///     let _bound = binding.bind();
///     let _scope = profile!("decode");
///     item + 1
/// };
/// # std::thread::scope(|threads| { threads.spawn(|| work(1)); });
/// ```
///
/// *Cost*: some 10 ns to take and to bind, and a look-up under a lock at the first scope after it
/// while more than one profiler is active.
///
/// Futures move between threads, and several run on one.
/// [`BindFutureExt::bound_to`](crate::BindFutureExt::bound_to) binds a future, wherever it is
/// polled.
#[derive(Clone)]
pub struct Binding(Option<(Arc<Owner>, IsOwn)>);

impl Binding {
    /// The calling thread's: who it is bound to, or what it activates itself, now or later.
    pub fn current() -> Self {
        let owner = thread::with(|thread| match thread.place.owner() {
            Some(owner) => owner,
            None => thread.place.own(),
        });
        Self(owner.map(|owner| (owner, IsOwn(false))))
    }

    /// A binding for one training more, whatever thread it runs on: a profiler that is activated
    /// by work that is bound so belongs to that work alone. Until then its scopes belong to whom
    /// the calling thread's do.
    #[allow(clippy::new_without_default, reason = "it depends on the calling thread")]
    pub fn new() -> Self {
        let parent = thread::with(|thread| thread.place.owner()).flatten();
        Self(Some((Owner::inside(parent), IsOwn(true))))
    }

    /// Has the calling thread's scopes belong to whom those of the binding's thread do, until the
    /// guard is dropped.
    pub fn bind(&self) -> Bound {
        let Some((owner, is_own)) = &self.0 else { return Bound::NOTHING };
        let before = thread::with(|thread| {
            let mut place = thread.place.borrow_mut();
            let is_bound = |(known, known_own): &(Arc<Owner>, IsOwn)| {
                Arc::ptr_eq(known, owner) && (known_own.0 || !is_own.0)
            };
            if place.as_ref().is_some_and(is_bound) {
                return None;
            }
            let before = place.replace((owner.clone(), *is_own));
            drop(place);
            thread.look_again();
            Some(before)
        });
        Bound { before: before.flatten(), stays_on_its_thread: PhantomData }
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Binding").finish_non_exhaustive()
    }
}

/// Keeps a thread bound; see [`Binding::bind`]. Several are to be dropped in the reverse order.
#[must_use = "the thread is bound only until this is dropped"]
pub struct Bound {
    /// What to put back, if anything was changed.
    before: Option<Option<(Arc<Owner>, IsOwn)>>,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl Bound {
    const NOTHING: Self = Self { before: None, stays_on_its_thread: PhantomData };
}

impl Drop for Bound {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        thread::with(|thread| {
            let bound = std::mem::replace(&mut *thread.place.borrow_mut(), before);
            drop(bound);
            thread.look_again();
        });
    }
}

impl fmt::Debug for Bound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Bound").finish_non_exhaustive()
    }
}

/// That a training loop of ours runs on the thread that began this, until it is dropped.
pub(crate) struct RunningLoop(Arc<Owner>);

/// How many there are in the process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

impl RunningLoop {
    /// Whether there is one, on whatever thread.
    pub(crate) fn is_any() -> bool {
        RUNNING.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn begin() -> Self {
        let owner = thread::with(|thread| thread.place.own()).unwrap_or_default();
        owner.loops.fetch_add(1, Ordering::Relaxed);
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self(owner)
    }

    /// Whether what the calling thread does is told to a profiler by such a loop: it runs on this thread
    /// or on the one that this is bound to, and the thread has not activated a profiler of its own
    /// since. *Cost*: a look at the thread's own data; no lock.
    pub(crate) fn is_around() -> bool {
        let owner = thread::with(|thread| thread.place.owner()).flatten();
        let active = owner.as_ref().and_then(|owner| owner.chain().find(|one| one.is_active()));
        active.is_some_and(|owner| owner.loops.load(Ordering::Relaxed) > 0)
    }
}

impl Drop for RunningLoop {
    fn drop(&mut self) {
        self.0.loops.fetch_sub(1, Ordering::Relaxed);
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `work`, for another thread to do: its scopes will belong to whom the calling thread's do. See
/// [`Binding`].
///
/// ```
/// use mlprof_core::{Profiler, SimpleProfiler, activate, bound, profile};
/// use std::sync::Arc;
///
/// let train = |name: &'static str| {
///     let profiler = Arc::new(SimpleProfiler::new());
///     let active = activate(profiler.clone());
///     let loader = std::thread::spawn(bound(move || drop(profile!("load"))));
///     loader.join().unwrap();
///     drop(active);
///     profiler
/// };
/// let other = std::thread::spawn(move || train("other")); // at the same time
/// let profiler = train("one");
/// assert_eq!(profiler.snapshot().actions[0].calls, 1);
/// # drop(other.join().unwrap());
/// ```
pub fn bound<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let binding = Binding::current();
    move || {
        let _bound = binding.bind();
        work()
    }
}
