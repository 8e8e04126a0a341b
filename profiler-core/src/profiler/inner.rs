//! Inner structure of a profiler: standalone, a wrapper of another profiler, or one of mlprof's
//! own.

use std::sync::Arc;

use super::Profiler;
use crate::Error;
use crate::output::RenderedReport;
use mlprof_events::{Action, Interest};

/// The profiler that another one wraps, if any. [`Profiler::inner`] returns it.
#[derive(Clone, Copy)]
pub struct Inner<'profiler>(pub(super) Kind<'profiler>);

#[derive(Clone, Copy)]
pub(super) enum Kind<'profiler> {
    None,
    Wrapped(&'profiler dyn Profiler),
    Own(&'profiler dyn Internals),
}

impl<'profiler> Inner<'profiler> {
    /// No wrapped profiler.
    pub const NONE: Self = Self(Kind::None);

    /// Wraps `profiler`. Methods that the wrapper does not override forward to it.
    ///
    /// # Examples
    ///
    /// For a field `profiler: Arc<dyn Profiler>`, the wrapper's method is:
    ///
    /// ```
    /// # use mlprof_core::{Action, Inner, NeverStarted, Profiler};
    /// # struct Wrapper { profiler: std::sync::Arc<dyn Profiler> }
    /// # impl Profiler for Wrapper {
    /// #     fn start(&self, action: Action) { self.profiler.start(action) }
    /// #     fn stop(&self, action: Action) -> Result<(), NeverStarted> {
    /// #         self.profiler.stop(action)
    /// #     }
    /// fn inner(&self) -> Inner<'_> {
    ///     Inner::of(&*self.profiler)
    /// }
    /// # }
    /// ```
    pub const fn of(profiler: &'profiler dyn Profiler) -> Self {
        Self(Kind::Wrapped(profiler))
    }

    /// Describes one of mlprof's own profilers, which also implements [`Internals`].
    #[doc(hidden)]
    pub const fn internals(own: &'profiler dyn Internals) -> Self {
        Self(Kind::Own(own))
    }

    /// Returns the profiler to which default methods forward.
    pub(super) fn wrapped(self) -> Option<&'profiler dyn Profiler> {
        match self.0 {
            Kind::None => None,
            Kind::Wrapped(inner) => Some(inner),
            Kind::Own(own) => own.wrapped(),
        }
    }
}

impl std::fmt::Debug for Inner<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.wrapped().map(name_of);
        formatter.debug_tuple("Inner").field(&name).finish()
    }
}

/// Additional methods of mlprof's own profilers. These profilers contain their own panics, and
/// sessions, the hooks of `mlprof run` and trainers query them. Other crates must not implement
/// this trait.
#[doc(hidden)]
pub trait Internals: Profiler {
    /// Returns the profiler to which default methods forward.
    fn wrapped(&self) -> Option<&dyn Profiler> {
        None
    }

    /// Returns the parts of a [`MultiProfiler`](crate::MultiProfiler), without an attached profiler
    /// such as a watcher.
    fn parts(&self) -> &[Arc<dyn Profiler>] {
        &[]
    }

    /// Returns the profilers to which this one forwards every event.
    fn receivers(&self) -> &[Arc<dyn Profiler>] {
        &[]
    }

    /// Returns the program's profiler whose panics this one contains.
    fn guarded(&self) -> Option<&Arc<dyn Profiler>> {
        None
    }

    /// Returns the error of a setting that was rejected.
    fn refused_setting(&self) -> Option<Error> {
        None
    }

    /// Returns `true` if the profiler may ever want an event.
    fn is_enabled(&self) -> bool {
        self.interest() != Interest::NONE
    }

    /// Returns `true` if `action` is open on the calling thread. A hook of `mlprof run` then does
    /// not count it again.
    fn is_open(&self, action: Action) -> bool {
        self.wrapped().is_some_and(|inner| is_open(inner, action))
    }

    /// Returns `true` if the profiler reports the sanity check separately from its fit. Trainers
    /// then call [`setup`](Profiler::setup) and [`teardown`](Profiler::teardown) around it.
    fn separates_sanity_check(&self) -> bool {
        true
    }

    /// Returns the report in all its forms, from a single measurement.
    fn render(&self) -> RenderedReport {
        RenderedReport::new(self.summary(), self.report())
    }
}

/// Returns the profiler, or the error of a setting that was rejected.
pub(crate) fn accepted(profiler: Arc<dyn Profiler>) -> Result<Arc<dyn Profiler>, Error> {
    refused_setting(&*profiler).map_or(Ok(profiler), Err)
}

/// Returns the error of a rejected setting, of `profiler` itself or of one to which it forwards
/// events.
fn refused_setting(profiler: &dyn Profiler) -> Option<Error> {
    match profiler.inner().0 {
        Kind::None => None,
        Kind::Wrapped(inner) => refused_setting(inner),
        Kind::Own(own) => {
            let inner = own.wrapped().into_iter();
            let mut all = inner.chain(own.receivers().iter().map(|part| &**part));
            own.refused_setting().or_else(|| all.find_map(refused_setting))
        }
    }
}

/// Returns `true` if `profiler` is one of mlprof's own.
pub(crate) fn has_internals(profiler: &dyn Profiler) -> bool {
    matches!(profiler.inner().0, Kind::Own(_))
}

/// Returns the program's profiler whose panics `profiler` contains.
pub(crate) fn guarded_profiler(profiler: &dyn Profiler) -> Option<&Arc<dyn Profiler>> {
    match profiler.inner().0 {
        Kind::Own(own) => own.guarded(),
        Kind::None | Kind::Wrapped(_) => None,
    }
}

/// Returns the type name of the profiler. For a guard it is the type name of the guarded profiler.
pub(crate) fn name_of(profiler: &dyn Profiler) -> &'static str {
    guarded_profiler(profiler).map_or(profiler, |own| &**own).type_name()
}

/// Returns `true` if the calling thread has `action` open in `profiler`.
pub(crate) fn is_open(profiler: &dyn Profiler, action: Action) -> bool {
    match profiler.inner().0 {
        Kind::None => false,
        Kind::Wrapped(inner) => is_open(inner, action),
        Kind::Own(own) => own.is_open(action),
    }
}

/// Returns `true` if `profiler` is `other` or forwards every event to it.
pub(crate) fn passes_on_to(profiler: &dyn Profiler, other: &dyn Profiler) -> bool {
    if std::ptr::addr_eq(profiler, other) {
        return true;
    }
    match profiler.inner().0 {
        Kind::None => false,
        Kind::Wrapped(inner) => passes_on_to(inner, other),
        Kind::Own(own) => {
            own.wrapped().is_some_and(|inner| passes_on_to(inner, other))
                || own.receivers().iter().any(|part| passes_on_to(&**part, other))
        }
    }
}
