//! Binding of threads to the training that their scopes belong to.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::owner::{IsOwn, Owner};
use super::thread;

/// Owner of a thread's scopes, which can be bound to other threads.
///
/// With one active profiler in the process no binding is needed, because every thread reports to
/// it. If two trainings run at once, each with its own profiler, a thread reports to the profiler
/// that was activated on it. A bound thread reports to the profiler of the thread that it is bound
/// to. Work of threads that are bound to neither training is counted, and the reports of both
/// contain a note about it.
///
/// mlprof's trainers and plugins bind the threads that they start. Bind your own threads like this:
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
/// *Cost*: about 10 ns to create and to bind. While more than one profiler is active, the first
/// scope afterwards also needs a lookup under a lock.
///
/// Futures move between threads, and several run on one.
/// [`BindFutureExt::bound_to`](crate::BindFutureExt::bound_to) binds a future wherever it is
/// polled.
#[derive(Clone)]
pub struct Binding(Option<(Arc<Owner>, IsOwn)>);

impl Binding {
    /// Returns the binding of the calling thread. It covers the thread that this one is bound to,
    /// or the profilers that this thread activates itself, now or later.
    pub fn current() -> Self {
        let owner = thread::with(|thread| match thread.place.owner() {
            Some(owner) => owner,
            None => thread.place.own(),
        });
        Self(owner.map(|owner| (owner, IsOwn(false))))
    }

    /// Creates a binding for a separate training, on any thread. A profiler that is activated by
    /// work bound this way belongs to that work only. Until then, its scopes belong to the owner of
    /// the calling thread's scopes.
    #[allow(clippy::new_without_default, reason = "it depends on the calling thread")]
    pub fn new() -> Self {
        let parent = thread::with(|thread| thread.place.owner()).flatten();
        Self(Some((Owner::inside(parent), IsOwn(true))))
    }

    /// Binds the calling thread: its scopes belong to the binding's owner until the guard is
    /// dropped.
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

/// Guard that keeps a thread bound; see [`Binding::bind`]. Drop several guards in reverse order.
#[must_use = "the thread is bound only until this is dropped"]
pub struct Bound {
    /// Previous owner to restore, if the binding changed anything.
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

/// Guard that marks one of mlprof's training loops as running on the thread that began it.
pub(crate) struct RunningLoop(Arc<Owner>);

/// Number of running loops in the process.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

impl RunningLoop {
    /// Returns `true` if a loop runs on any thread.
    pub(crate) fn is_any() -> bool {
        RUNNING.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn begin() -> Self {
        let owner = thread::with(|thread| thread.place.own()).unwrap_or_default();
        owner.loops.fetch_add(1, Ordering::Relaxed);
        RUNNING.fetch_add(1, Ordering::Relaxed);
        Self(owner)
    }

    /// Returns `true` if such a loop reports the calling thread's work to a profiler. The loop runs
    /// on this thread or on the one that it is bound to, and the thread has not activated its own
    /// profiler since. *Cost*: a read of thread-local data, without a lock.
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

/// Wraps `work` for another thread, so that its scopes belong to the owner of the calling thread's
/// scopes. See [`Binding`].
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
