//! The seam: the [`Profiler`] trait, and the guards that start and stop actions through it.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::output::{Output, RenderedReport};
use crate::report::Report;
use mlprof_events::{
    Action, Interest, Observation, OpStart, RegionSink, RunContext, Stage, Unbound,
};

/// Receives what hooks measure: the one door between hooks and reports.
///
/// Only [`start`](Self::start) and [`stop`](Self::stop) must be written. Both are called on the
/// thread that does the work, possibly by many threads at once, and nest like brackets on each
/// thread as long as guards are used.
///
/// *Panics* of a profiler do not reach the program: after the first one, of whatever method, it is not called any more, and a line
/// on standard error names its type. That holds wherever a profiler is called by hooks, sessions and trainers; not for calls
/// that the program itself makes.
///
/// ```
/// use mlprof_core::{Action, NeverStarted, Profiler, ProfilerExt};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// /// Counts every start of anything.
/// #[derive(Default)]
/// struct StartCounter(AtomicUsize);
///
/// impl Profiler for StartCounter {
///     fn start(&self, _action: Action) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
///     fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
///         Ok(())
///     }
///     fn summary(&self) -> String {
///         format!("{} starts\n", self.0.load(Ordering::Relaxed))
///     }
/// }
///
/// let profiler = StartCounter::default();
/// {
///     let _scope = profiler.profile("load_data");
/// }
/// profiler.describe(); // prints "1 starts"
/// assert_eq!(profiler.summary(), "1 starts\n");
/// ```
pub trait Profiler: Send + Sync {
    /// Opens `action` on the calling thread. The same action may be open already: it then nests.
    fn start(&self, action: Action);

    /// Closes the innermost open `action` of the calling thread.
    ///
    /// # Errors
    ///
    /// [`NeverStarted`] when the thread has no such action open. Nothing is recorded then, and the
    /// profiler goes on.
    fn stop(&self, action: Action) -> Result<(), NeverStarted>;

    /// Whether the calling thread has `action` open. Asked by hooks that `mlprof run` has put where the
    /// program may have one of its own, so that nothing is counted twice. By default no.
    fn is_open(&self, _action: Action) -> bool {
        false
    }

    /// What this profiler wants to hear of, so that hooks do no work nobody asked for.
    /// Actions alone by default. Asked when the profiler is [activated](crate::activate), and when
    /// it says that its [interest changed](crate::hook::interest_changed).
    fn interest(&self) -> Interest {
        Interest::ACTIONS
    }

    /// Whether it will ever want anything. If not, trainers run as if there were no profiler. By
    /// default what [`interest`](Self::interest) says now; a profiler that begins later says yes.
    fn is_enabled(&self) -> bool {
        self.interest() != Interest::NONE
    }

    /// A tensor op begins on the calling thread; it ends by [`stop`](Self::stop) of its action.
    /// Called only while [`interest`](Self::interest) has [`Interest::OPS`]. By default an action
    /// like any other.
    fn start_op(&self, op: &OpStart<'_>) {
        self.start(op.action);
    }

    /// Something has become known besides what starts and stops: memory, what ran on a device, what a reader
    /// of the report must know. Called only while [`interest`](Self::interest) has what the
    /// [observation wants](Observation::interest). Ignored by default; one of a kind that is not known is
    /// to be ignored.
    fn observe(&self, _observation: &Observation<'_>) {}

    /// Where regions of a device go that are opened now by this profiler's guards, and on behalf of it
    /// where it is active: see [`RegionSink`]. `None` (the default) if it does not want them.
    fn region_sink(&self) -> Option<Arc<dyn RegionSink>> {
        None
    }

    /// The profiler is being activated, and will not be told what threads do that belong to no one
    /// training while another one is active: that is counted here, for its report to
    /// [say](Unbound::note). Ignored by default.
    fn unbound(&self, _work: &Arc<Unbound>) {}

    /// The profilers that it consists of: those of [`Several`](crate::Several). None by default.
    fn parts(&self) -> &[Arc<dyn Profiler>] {
        &[]
    }

    /// Whether its panics may reach whoever calls it: of mlprof's own profilers, which are called
    /// as they are. Those of others are called through one that catches their panics.
    #[doc(hidden)]
    fn is_guarded(&self) -> bool {
        false
    }

    /// The profiler that this one guards; `None` for all but such a guard.
    #[doc(hidden)]
    fn guarded_profiler(&self) -> Option<&Arc<dyn Profiler>> {
        None
    }

    /// The name of its type, for messages.
    #[doc(hidden)]
    fn type_name(&self) -> &'static str {
        std::any::type_name::<Self>()
    }

    /// Whether it tells the profiler at this address of all that it is told of.
    #[doc(hidden)]
    fn hands_on_to(&self, _profiler: *const ()) -> bool {
        false
    }

    /// Why the training should end, if this profiler has seen a reason to. Asked by trainers before an optimizer's step and after it; they
    /// end the stage with an error. `None` by default.
    fn reason_to_stop(&self) -> Option<String> {
        None
    }

    /// Whether this profiler wants to see the running batch once more, because of what it saw in it, and has begun to: trainers that can
    /// then run it forward again from the same parameters, and backward where the training [ends](Self::reason_to_stop) by that, and call
    /// [`end_rerun`](Self::end_rerun). Asked after backward and before the optimizer's step. False by default.
    fn begin_rerun(&self) -> bool {
        false
    }

    /// The batch has been run again, or that has failed. Called on all profilers where one of them wanted it. Ignored by default.
    fn end_rerun(&self, _failure: Option<&str>) {}

    /// Ends a step and begins the next one. In a fit the steps are its training batches; in a
    /// validation, test or prediction of its own they are the batches of that stage. Batches of a
    /// validation or a sanity check inside of a fit are not steps. Training loops call this after
    /// every step, on the thread that runs them. Ignored by default.
    fn step(&self) {}

    /// What runs from here to [`resume`](Self::resume) belongs to no step: the validation inside a
    /// training. Ignored by default.
    fn pause(&self) {}

    /// The end of a [`pause`](Self::pause).
    fn resume(&self) {}

    /// Whether this profiler reports the sanity check apart from the fit that it is a part of.
    /// Trainers then call [`setup`](Self::setup) and [`teardown`](Self::teardown) with
    /// [`Stage::SanityCheck`] around it, between those of the fit. False by default: both are
    /// called once per stage, and the rows of the sanity check are the fit's.
    fn separates_sanity_check(&self) -> bool {
        false
    }

    /// A stage begins: from here on measurements belong to it. Called once per stage. By default
    /// told to the [`output`](Self::output).
    fn setup(&self, stage: Stage, run: &RunContext) {
        if let Some(output) = self.output() {
            output.setup(stage, run);
        }
    }

    /// The stage is over (`None`: whichever is running). By default told to the
    /// [`output`](Self::output).
    fn teardown(&self, stage: Option<Stage>) {
        if let Some(output) = self.output() {
            output.teardown(stage);
        }
    }

    /// The report as text; empty by default.
    fn summary(&self) -> String {
        String::new()
    }

    /// The report as a value that other programs can read; none by default.
    fn report(&self) -> Option<Report> {
        None
    }

    /// Where reports of this profiler go; `None` (the default) is the console, on rank 0.
    fn output(&self) -> Option<&Output> {
        None
    }

    /// The report of the running stage in all its forms, which say the same: made of one measurement,
    /// after what is under way has ended. By default [`summary`](Self::summary) and
    /// [`report`](Self::report), for a profiler that has one of them, or that nothing is told of
    /// meanwhile; ours, and whoever has both, make them of one.
    fn render(&self) -> RenderedReport {
        RenderedReport::new(self.summary(), self.report())
    }

    /// Delivers what [`render`](Self::render) gives to the file of the [`output`](Self::output), or to
    /// the console on rank 0, as JSON and as an HTML page, too, if the output says so, and ends the stage
    /// by [`teardown`](Self::teardown).
    ///
    /// Never fails: where a file cannot be written it says so once on standard error, and the
    /// report goes to the console.
    fn describe(&self) {
        self.render().deliver(self.output());
        self.teardown(None);
    }
}

/// An action was stopped that the thread had not started.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Attempting to stop recording an action ({name}) which was never started.", name = .0.name())]
pub struct NeverStarted(pub Action);

mlprof_events::debug_as_display!(NeverStarted);

/// Scope guards for every profiler, owned or behind `Arc<dyn Profiler>`.
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
/// # Ok::<(), mlprof_core::UnknownProfiler>(())
/// ```
pub trait ProfilerExt: Profiler {
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
}

impl<P: Profiler + ?Sized> ProfilerExt for P {}

/// An open action of [`ProfilerExt::profile`]; stops it when dropped.
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
