//! Extension trait for all profilers: scope guards, training loop marks and report rendering.

use std::marker::PhantomData;
use std::sync::Arc;

use super::Profiler;
use super::inner::Kind;
use crate::output::RenderedReport;
use mlprof_events::{Action, Interest, Observation, RegionSink, RegionSinks, TrainingControl};

/// Scope guards and training loop marks for every profiler, owned or behind `Arc<dyn Profiler>`.
///
/// A model may keep the profiler of its trainer:
///
/// ```
/// use mlprof_core::{IntoProfiler, Profiler, ProfilerExt};
/// use std::sync::Arc;
///
/// struct Model {
///     profiler: Arc<dyn Profiler>,
/// }
///
/// impl Model {
///     fn forward(&self, input: f32) -> f32 {
///         let _scope = self.profiler.profile("forward");
///         input * 2.0
///     }
/// }
///
/// let model = Model { profiler: "simple".into_profiler()? };
/// model.forward(1.0);
/// assert!(model.profiler.summary().contains("forward"));
/// # Ok::<(), mlprof_core::Error>(())
/// ```
pub trait ProfilerExt: Profiler + sealed::Sealed {
    /// Starts `action` and returns a guard that stops it when dropped. The guard also measures
    /// correctly on an early return or while a panic unwinds. Bind it to a name: `let _scope = …`.
    ///
    /// ```
    /// use mlprof_core::{ProfilerExt, SimpleProfiler};
    ///
    /// let profiler = SimpleProfiler::new();
    /// {
    ///     let _scope = profiler.profile("load_data");
    ///     // … the work …
    /// }
    /// assert!(profiler.summary().contains("load_data"));
    /// # use mlprof_core::Profiler;
    /// ```
    ///
    /// A guard cannot move to another thread:
    ///
    /// ```compile_fail,E0277
    /// use mlprof_core::{ProfilerExt, SimpleProfiler};
    /// let profiler = SimpleProfiler::new();
    /// std::thread::scope(|threads| {
    ///     let scope = profiler.profile("load_data");
    ///     threads.spawn(move || drop(scope));
    /// });
    /// ```
    #[inline(always)]
    fn profile(&self, action: impl Into<Action>) -> Scope<'_, Self> {
        let action = action.into();
        self.start(action);
        Scope { profiler: self, action, stays_on_its_thread: PhantomData }
    }

    /// Wraps `iterable` and measures each call of `next`, including the last one, which finds the
    /// end. The measured time is the time spent waiting for data.
    fn profile_iterable<I: IntoIterator>(
        &self,
        iterable: I,
        action: impl Into<Action>,
    ) -> ProfiledIterator<'_, Self, I::IntoIter> {
        ProfiledIterator { profiler: self, iterator: iterable.into_iter(), action: action.into() }
    }

    /// Ends the current step and begins the next one, with [`Observation::StepEnd`]. A hand-written
    /// loop calls this after each batch. Trainers call it themselves.
    fn step(&self) {
        self.observe(&Observation::StepEnd);
    }

    /// Pauses step counting until [`resume`](Self::resume), with [`Observation::StepsPaused`]. Use
    /// it for a validation between training batches.
    fn pause(&self) {
        self.observe(&Observation::StepsPaused);
    }

    /// Ends a [`pause`](Self::pause), with [`Observation::StepsResumed`].
    fn resume(&self) {
        self.observe(&Observation::StepsResumed);
    }

    /// Returns the reason for ending the training if a profiler requests that, using
    /// [`Observation::Control`]. A hand-written loop calls this before the optimizer's step or
    /// after the batch. Trainers call it themselves.
    fn reason_to_stop(&self) -> Option<String> {
        let control = TrainingControl::new();
        self.observe(&Observation::Control(&control));
        control.into_stop_reason()
    }

    /// Returns the report of the running stage in all its forms. All forms come from one
    /// measurement, taken after pending work has finished. For a profiler written by the program,
    /// the forms are [`summary`](Profiler::summary) and [`report`](Profiler::report).
    #[doc(hidden)]
    fn render(&self) -> RenderedReport {
        match self.inner().0 {
            Kind::Own(own) => own.render(),
            Kind::None => RenderedReport::new(self.summary(), self.report()),
            Kind::Wrapped(inner) => {
                let rendered = inner.render();
                let text = self.summary();
                // A wrapper that overrides `summary` or `report` replaces both forms.
                if text == rendered.text() {
                    rendered
                } else {
                    rendered.with_text(text, self.report())
                }
            }
        }
    }

    /// Returns the parts of a [`MultiProfiler`](crate::MultiProfiler), or an empty slice for any
    /// other profiler.
    #[doc(hidden)]
    fn parts(&self) -> &[Arc<dyn Profiler>] {
        match self.inner().0 {
            Kind::Own(own) => own.parts(),
            Kind::None | Kind::Wrapped(_) => &[],
        }
    }

    /// Returns `true` if the profiler may ever want an event. Otherwise trainers run as if they had
    /// no profiler.
    #[doc(hidden)]
    fn is_enabled(&self) -> bool {
        match self.inner().0 {
            Kind::Own(own) => own.is_enabled(),
            Kind::Wrapped(inner) if inner.is_enabled() => true,
            Kind::None | Kind::Wrapped(_) => self.interest() != Interest::NONE,
        }
    }

    /// Returns `true` if trainers must call [`setup`](Profiler::setup) and
    /// [`teardown`](Profiler::teardown) around the sanity check, so that it gets a report separate
    /// from its fit.
    #[doc(hidden)]
    fn separates_sanity_check(&self) -> bool {
        match self.inner().0 {
            Kind::None => false,
            Kind::Wrapped(inner) => inner.separates_sanity_check(),
            Kind::Own(own) => own.separates_sanity_check(),
        }
    }

    /// Returns the sink for a device region that is opened now, using
    /// [`Observation::RegionOpened`].
    #[doc(hidden)]
    fn region_sink(&self) -> Option<Arc<dyn RegionSink>> {
        let sinks = RegionSinks::new();
        self.observe(&Observation::RegionOpened(&sinks));
        sinks.into_sink()
    }
}

impl<P: Profiler + ?Sized> ProfilerExt for P {}

/// Prevents other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<P: super::Profiler + ?Sized> Sealed for P {}
}

/// Guard of an open action, returned by [`ProfilerExt::profile`]. Dropping it stops the action.
#[derive(Debug)]
#[must_use = "an action ends when its guard is dropped: bind it, `let _scope = …`"]
pub struct Scope<'profiler, P: Profiler + ?Sized = dyn Profiler> {
    profiler: &'profiler P,
    action: Action,
    stays_on_its_thread: PhantomData<*const ()>,
}

impl<P: Profiler + ?Sized> Drop for Scope<'_, P> {
    #[inline(always)]
    fn drop(&mut self) {
        // Stopping fails only if code inside the scope has stopped this action by hand. That call
        // has already returned its result, and a destructor cannot return an error.
        let _ = self.profiler.stop(self.action);
    }
}

/// Iterator returned by [`ProfilerExt::profile_iterable`].
#[derive(Debug)]
pub struct ProfiledIterator<'profiler, P: Profiler + ?Sized, I> {
    profiler: &'profiler P,
    iterator: I,
    action: Action,
}

impl<P: Profiler + ?Sized, I: Iterator> Iterator for ProfiledIterator<'_, P, I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let _scope = self.profiler.profile(self.action);
        self.iterator.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.iterator.size_hint()
    }
}
