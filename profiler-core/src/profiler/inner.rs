//! What a profiler is made of: nothing else, one profiler that it wraps, or one of mlprof's own.

use std::sync::Arc;

use super::Profiler;
use crate::Error;
use crate::output::RenderedReport;
use mlprof_events::{Action, Interest};

/// The profiler that another one wraps, if any: the result of [`Profiler::inner`].
#[derive(Clone, Copy)]
pub struct Inner<'profiler>(pub(super) Kind<'profiler>);

#[derive(Clone, Copy)]
pub(super) enum Kind<'profiler> {
    None,
    Wrapped(&'profiler dyn Profiler),
    Own(&'profiler dyn Internals),
}

impl<'profiler> Inner<'profiler> {
    /// No profiler.
    pub const NONE: Self = Self(Kind::None);

    /// A profiler that is wrapped. Methods that the wrapper does not write pass calls on to it.
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
    /// #     fn stop(&self, action: Action) -> Result<(), NeverStarted> { self.profiler.stop(action) }
    /// fn inner(&self) -> Inner<'_> {
    ///     Inner::of(&*self.profiler)
    /// }
    /// # }
    /// ```
    pub const fn of(profiler: &'profiler dyn Profiler) -> Self {
        Self(Kind::Wrapped(profiler))
    }

    /// A profiler of mlprof's, with what only those have.
    #[doc(hidden)]
    pub const fn internals(own: &'profiler dyn Internals) -> Self {
        Self(Kind::Own(own))
    }

    /// Returns the profiler to which default methods pass calls on.
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

/// What mlprof's own profilers have besides: they contain their panics themselves, and sessions,
/// hooks of `mlprof run` and trainers query them. Not for other crates to implement.
#[doc(hidden)]
pub trait Internals: Profiler {
    /// Returns the profiler to which default methods pass calls on.
    fn wrapped(&self) -> Option<&dyn Profiler> {
        None
    }

    /// Returns the profilers of a [`MultiProfiler`](crate::MultiProfiler), without one that is
    /// beside all others.
    fn parts(&self) -> &[Arc<dyn Profiler>] {
        &[]
    }

    /// Returns the profilers to which this one passes on every event.
    fn receivers(&self) -> &[Arc<dyn Profiler>] {
        &[]
    }

    /// Returns the program's profiler whose panics this one contains.
    fn guarded(&self) -> Option<&Arc<dyn Profiler>> {
        None
    }

    /// Returns the error of a setting that took no effect.
    fn refused_setting(&self) -> Option<Error> {
        None
    }

    /// Whether the profiler will ever want any event.
    fn is_enabled(&self) -> bool {
        self.interest() != Interest::NONE
    }

    /// Whether the calling thread has `action` open, so that a hook of `mlprof run` does not count
    /// it again.
    fn is_open(&self, action: Action) -> bool {
        self.wrapped().is_some_and(|inner| is_open(inner, action))
    }

    /// Whether the profiler reports the sanity check apart from its fit. Trainers then call
    /// [`setup`](Profiler::setup) and [`teardown`](Profiler::teardown) around it.
    fn separates_sanity_check(&self) -> bool {
        true
    }

    /// Returns the report in all its forms, made of one measurement.
    fn render(&self) -> RenderedReport {
        RenderedReport::new(self.summary(), self.report())
    }
}

/// Returns the profiler, unless one of its settings took no effect.
pub(crate) fn accepted(profiler: Arc<dyn Profiler>) -> Result<Arc<dyn Profiler>, Error> {
    refused_setting(&*profiler).map_or(Ok(profiler), Err)
}

/// Returns the error of a setting that took no effect, of `profiler` or of one to which it passes
/// on events.
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

/// Whether `profiler` is one of mlprof's own.
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

/// Returns the name of the profiler's type, or of the program's profiler that it guards.
pub(crate) fn name_of(profiler: &dyn Profiler) -> &'static str {
    guarded_profiler(profiler).map_or(profiler, |own| &**own).type_name()
}

/// Whether the calling thread has `action` open in `profiler`.
pub(crate) fn is_open(profiler: &dyn Profiler, action: Action) -> bool {
    match profiler.inner().0 {
        Kind::None => false,
        Kind::Wrapped(inner) => is_open(inner, action),
        Kind::Own(own) => own.is_open(action),
    }
}

/// Whether `profiler` is `other`, or passes on every event to it.
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
