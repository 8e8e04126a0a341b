//! What every profiler can do: scope guards, marks of a training loop, the rendered report.

use std::marker::PhantomData;
use std::sync::Arc;

use super::Profiler;
use super::inner::Kind;
use crate::output::RenderedReport;
use mlprof_events::{Action, Interest, Observation, RegionSink, RegionSinks, TrainingControl};

/// Scope guards and marks of a training loop, for every profiler, owned or behind `Arc<dyn
/// Profiler>`.
///
/// A model may keep the profiler that its trainer was given:
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
    /// Measures from here until the guard is dropped, be it at the end of the block, by an early
    /// return or while a panic unwinds. Bind it to a name: `let _scope = …`.
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
    /// A guard cannot leave its thread:
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

    /// Hands on what `iterable` yields and measures every `next`, the last (which finds the end)
    /// included: the time spent waiting for data.
    fn profile_iterable<I: IntoIterator>(
        &self,
        iterable: I,
        action: impl Into<Action>,
    ) -> ProfiledIterator<'_, Self, I::IntoIter> {
        ProfiledIterator { profiler: self, iterator: iterable.into_iter(), action: action.into() }
    }

    /// Ends a step and begins the next one: [`Observation::StepEnd`]. A hand-written loop calls
    /// this after each batch; trainers do so themselves.
    fn step(&self) {
        self.observe(&Observation::StepEnd);
    }

    /// Excludes what follows from the steps, until [`resume`](Self::resume):
    /// [`Observation::StepsPaused`]. For a validation between training batches.
    fn pause(&self) {
        self.observe(&Observation::StepsPaused);
    }

    /// Ends a [`pause`](Self::pause): [`Observation::StepsResumed`].
    fn resume(&self) {
        self.observe(&Observation::StepsResumed);
    }

    /// Returns the reason why a profiler wants to end the training, if it has one:
    /// [`Observation::Control`]. A hand-written loop asks before the optimizer's step or after the
    /// batch; trainers do so themselves.
    fn reason_to_stop(&self) -> Option<String> {
        let control = TrainingControl::new();
        self.observe(&Observation::Control(&control));
        control.into_stop_reason()
    }

    /// Returns the report of the running stage in all its forms, made of one measurement after what
    /// is under way has ended. For a profiler of the program these are
    /// [`summary`](Profiler::summary) and [`report`](Profiler::report).
    #[doc(hidden)]
    fn render(&self) -> RenderedReport {
        match self.inner().0 {
            Kind::Own(own) => own.render(),
            Kind::None => RenderedReport::new(self.summary(), self.report()),
            Kind::Wrapped(inner) => {
                let rendered = inner.render();
                let text = self.summary();
                // A wrapper that writes `summary` or `report` has the last word on both.
                if text == rendered.text() {
                    rendered
                } else {
                    rendered.with_text(text, self.report())
                }
            }
        }
    }

    /// Returns the profilers that a [`MultiProfiler`](crate::MultiProfiler) consists of; none for
    /// other profilers.
    #[doc(hidden)]
    fn parts(&self) -> &[Arc<dyn Profiler>] {
        match self.inner().0 {
            Kind::Own(own) => own.parts(),
            Kind::None | Kind::Wrapped(_) => &[],
        }
    }

    /// Whether the profiler will ever want any event. Otherwise trainers run as if there were none.
    #[doc(hidden)]
    fn is_enabled(&self) -> bool {
        match self.inner().0 {
            Kind::Own(own) => own.is_enabled(),
            Kind::Wrapped(inner) if inner.is_enabled() => true,
            Kind::None | Kind::Wrapped(_) => self.interest() != Interest::NONE,
        }
    }

    /// Whether trainers call [`setup`](Profiler::setup) and [`teardown`](Profiler::teardown) around
    /// the sanity check, for a report of it apart from its fit.
    #[doc(hidden)]
    fn separates_sanity_check(&self) -> bool {
        match self.inner().0 {
            Kind::None => false,
            Kind::Wrapped(inner) => inner.separates_sanity_check(),
            Kind::Own(own) => own.separates_sanity_check(),
        }
    }

    /// Returns the sink of a region of a device that is opened now: [`Observation::RegionOpened`].
    #[doc(hidden)]
    fn region_sink(&self) -> Option<Arc<dyn RegionSink>> {
        let sinks = RegionSinks::new();
        self.observe(&Observation::RegionOpened(&sinks));
        sinks.into_sink()
    }
}

impl<P: Profiler + ?Sized> ProfilerExt for P {}

/// Keeps other crates from implementing the extension trait.
mod sealed {
    pub trait Sealed {}
    impl<P: super::Profiler + ?Sized> Sealed for P {}
}

/// An open action of [`ProfilerExt::profile`]; stops it when dropped.
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
        // Stopping fails only if somebody stopped this action by hand inside the scope. That call
        // has been answered; a destructor has nobody to tell.
        let _ = self.profiler.stop(self.action);
    }
}

/// The iterator of [`ProfilerExt::profile_iterable`].
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
