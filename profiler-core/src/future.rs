//! Futures whose polls are measured, and futures that are bound to a training.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{Action, ActiveScope, Binding, Callsite, Interest};

#[derive(Clone, Copy)]
enum Site {
    /// Made by `#[profiled]`: not even resolved before a profiler wants it.
    Function(&'static Callsite),
    Action(Action),
}

/// A future whose polls are measured by the active profiler: the work done in it, and not the
/// time it waits. Of an async function the first poll that is measured counts as the call, and
/// reports show the polls beside the calls; of an action each poll is one.
///
/// `#[profiled]` on an `async fn` makes one. By hand, for futures of other makes:
///
/// ```
/// use mlprof_core::future::ProfiledFuture;
///
/// # async fn download() -> u32 { 42 }
/// let batch = ProfiledFuture::new("download", download());
/// ```
///
/// *Cost*: one relaxed load per poll when no profiler is active; some 24 bytes. It may move
/// between threads from poll to poll if the future may.
#[must_use = "futures do nothing unless they are awaited"]
pub struct ProfiledFuture<F> {
    site: Site,
    // What polls are after the first of an async function.
    resumption: Option<Action>,
    // Pinned where this is.
    future: F,
}

impl<F> ProfiledFuture<F> {
    /// Measures the polls of `future` as `action`.
    pub fn new(action: impl Into<Action>, future: F) -> Self {
        Self { site: Site::Action(action.into()), resumption: None, future }
    }

    /// Measures the polls of the body of an `async fn`.
    #[doc(hidden)]
    #[inline(always)]
    pub const fn at(callsite: &'static Callsite, future: F) -> Self {
        Self { site: Site::Function(callsite), resumption: None, future }
    }
}

impl<F: Future> Future for ProfiledFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: `future` is never moved: it is pinned here and nowhere else, the type has no
        // `Drop`, and it is `Unpin` only if `F` is. The other fields are never pinned.
        let (site, resumption, future) = unsafe {
            let this = self.get_unchecked_mut();
            (this.site, &mut this.resumption, Pin::new_unchecked(&mut this.future))
        };
        let scope = match (site, *resumption) {
            (Site::Function(callsite), None) => ActiveScope::at(callsite, Interest::FUNCTIONS),
            (Site::Function(_), Some(goes_on)) => {
                ActiveScope::open(|| goes_on, Interest::FUNCTIONS)
            }
            (Site::Action(action), _) => ActiveScope::open(|| action, Interest::ACTIONS),
        };
        let polled = future.poll(context);
        if polled.is_pending()
            && let (Site::Function(callsite), None, true) = (site, *resumption, scope.is_open())
        {
            *resumption = Some(callsite.action().resumption());
        }
        drop(scope);
        polled
    }
}

impl<F: fmt::Debug> fmt::Debug for ProfiledFuture<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ProfiledFuture")
            .field("future", &self.future)
            .finish_non_exhaustive()
    }
}

/// A future whose scopes belong to one training, on whatever thread it is polled and dropped;
/// made by [`BindFutureExt::bound_to`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct BoundFuture<F> {
    binding: Binding,
    // Pinned where this is; `None` only while it is being dropped.
    future: Option<F>,
}

impl<F> BoundFuture<F> {
    /// Returns the fields; the future is pinned as the whole is.
    #[inline]
    fn project(self: Pin<&mut Self>) -> (&Binding, Pin<&mut Option<F>>) {
        // SAFETY: `future` is never moved: it is handed out pinned here and nowhere else, `drop`
        // sets it to `None` in place, and the type is `Unpin` only if `F` is. `binding` is never
        // pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (&this.binding, Pin::new_unchecked(&mut this.future))
        }
    }
}

impl<F> Drop for BoundFuture<F> {
    fn drop(&mut self) {
        // SAFETY: what is being dropped is not moved before, nor used afterwards.
        let (binding, mut future) = unsafe { Pin::new_unchecked(self) }.project();
        let _bound = binding.bind();
        future.set(None);
    }
}

impl<F: Future> Future for BoundFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let (binding, future) = self.project();
        let _bound = binding.bind();
        match future.as_pin_mut() {
            Some(future) => future.poll(context),
            None => unreachable!("a future that is being dropped is not polled"),
        }
    }
}

impl<F: fmt::Debug> fmt::Debug for BoundFuture<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BoundFuture").field("future", &self.future).finish_non_exhaustive()
    }
}

/// Adds [`bound_to`](Self::bound_to) to all futures.
pub trait BindFutureExt: Future + Sized + sealed::Sealed {
    /// Binds this future to `training`: its scopes belong to that training, on whatever thread an
    /// executor polls it, between all awaits and when it is dropped.
    ///
    /// Trainings that run as tasks get a [`Binding::new`] each, or those that are polled on one
    /// thread could not be told apart. What such a training spawns is bound to
    /// [`Binding::current`].
    ///
    /// ```standalone_crate
    /// use mlprof_core::{BindFutureExt, Binding, Profiler, SimpleProfiler, activate, profile};
    /// use std::sync::Arc;
    ///
    /// async fn train(profiler: Arc<SimpleProfiler>) {
    ///     let _active = activate(profiler);
    ///     let loader = async { drop(profile!("load")) };
    ///     loader.bound_to(&Binding::current()).await; // as it would be given to `spawn`
    ///     drop(profile!("run_training_batch"));
    /// }
    ///
    /// let profiler = Arc::new(SimpleProfiler::new());
    /// let task = train(profiler.clone()).bound_to(&Binding::new());
    /// # let mut task = std::pin::pin!(task);
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # assert!(std::future::Future::poll(task.as_mut(), &mut context).is_ready());
    /// # let actions = profiler.snapshot().actions;
    /// # let own = actions.iter().filter(|row| !row.action.starts_with("process_startup"));
    /// # assert_eq!(own.count(), 2);
    /// ```
    ///
    /// *Cost*: each poll binds its thread; while a profiler is active the first scope of a poll then looks up whose
    /// it is, under a lock.
    fn bound_to(self, training: &Binding) -> BoundFuture<Self> {
        BoundFuture { binding: training.clone(), future: Some(self) }
    }
}

impl<F: Future> BindFutureExt for F {}

/// Keeps other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<F: Future> Sealed for F {}
}

/// Stands for the value of an `async fn` in a branch that is never taken.
#[doc(hidden)]
#[cold]
pub fn never_called<T>() -> T {
    unreachable!("only named to tell the compiler a type")
}
