//! Futures with measured polls, and futures bound to one training.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{Action, ActiveScope, Binding, Callsite, Interest};

#[derive(Clone, Copy)]
enum Site {
    /// Created by `#[profiled]`. The call site is not resolved until a profiler wants it.
    Function(&'static Callsite),
    Action(Action),
}

/// Future whose polls are measured by the active profiler. The measured time is the work in the
/// polls, without the time spent waiting. For an async function, the first measured poll counts as
/// the call, and reports show the polls beside the calls. For an action, each poll counts as one
/// call.
///
/// `#[profiled]` on an `async fn` creates one. Other futures can be wrapped by hand:
///
/// ```
/// use mlprof_core::future::ProfiledFuture;
///
/// # async fn download() -> u32 { 42 }
/// let batch = ProfiledFuture::new("download", download());
/// ```
///
/// *Cost*: one relaxed load per poll when no profiler is active, and about 24 bytes. It may move
/// between threads from poll to poll if the inner future is `Send`.
#[must_use = "futures do nothing unless they are awaited"]
pub struct ProfiledFuture<F> {
    site: Site,
    // Action of the polls after the first one of an async function.
    resumption: Option<Action>,
    // Structurally pinned: pinning the whole value also pins this field.
    future: F,
}

impl<F> ProfiledFuture<F> {
    /// Wraps `future` so that its polls are measured as `action`.
    pub fn new(action: impl Into<Action>, future: F) -> Self {
        Self { site: Site::Action(action.into()), resumption: None, future }
    }

    /// Wraps the body of an `async fn` so that its polls are measured.
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
        // SAFETY: pinning `future` is structural:
        //
        // - `future` is never moved out. This projection is the only access and returns it pinned.
        // - `ProfiledFuture` has no `Drop` implementation and is `Unpin` only if `F` is.
        // - The other fields are `Copy` and are never pinned.
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

/// Future whose scopes belong to one training, on any thread that polls or drops it.
/// [`BindFutureExt::bound_to`] creates it.
#[must_use = "futures do nothing unless they are awaited"]
pub struct BoundFuture<F> {
    binding: Binding,
    // Structurally pinned: pinning the whole value also pins this field. `None` only while it is
    // being dropped.
    future: Option<F>,
}

impl<F> BoundFuture<F> {
    /// Returns both fields, with the future pinned like the whole value.
    #[inline]
    fn project(self: Pin<&mut Self>) -> (&Binding, Pin<&mut Option<F>>) {
        // SAFETY: pinning `future` is structural:
        //
        // - `future` is never moved. This projection is the only access and returns it pinned.
        // - `drop` replaces it with `None` in place, and the type is `Unpin` only if `F` is.
        // - `binding` is never pinned.
        unsafe {
            let this = self.get_unchecked_mut();
            (&this.binding, Pin::new_unchecked(&mut this.future))
        }
    }
}

impl<F> Drop for BoundFuture<F> {
    fn drop(&mut self) {
        // SAFETY: `self` is being dropped, so it is not moved before its fields are dropped and not
        // used afterwards.
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
    /// Binds this future to `training`. Its scopes then belong to that training on any executor
    /// thread, across all awaits and when it is dropped.
    ///
    /// Trainings that run as tasks need one [`Binding::new`] each, because otherwise several of
    /// them on one thread cannot be distinguished. Tasks that such a training spawns are bound to
    /// [`Binding::current`].
    ///
    /// ```standalone_crate
    /// use mlprof_core::{BindFutureExt, Binding, Profiler, SimpleProfiler, activate, profile};
    /// use std::sync::Arc;
    ///
    /// async fn train(profiler: Arc<SimpleProfiler>) {
    ///     let _active = activate(profiler);
    ///     let loader = async { drop(profile!("load")) };
    ///     loader.bound_to(&Binding::current()).await; // a spawned task is bound in the same way
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
    /// *Cost*: each poll binds its thread. While a profiler is active, the first scope of a poll
    /// also looks up its profiler under a lock.
    fn bound_to(self, training: &Binding) -> BoundFuture<Self> {
        BoundFuture { binding: training.clone(), future: Some(self) }
    }
}

impl<F: Future> BindFutureExt for F {}

/// Prevents other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<F: Future> Sealed for F {}
}

/// Provides a value with the return type of an `async fn` in a branch that never runs.
#[doc(hidden)]
#[cold]
pub fn never_called<T>() -> T {
    unreachable!("only named to tell the compiler a type")
}
