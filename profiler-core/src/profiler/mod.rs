//! The [`Profiler`] trait, which hooks call, and the guards that start and stop actions through it.

mod ext;
mod inner;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::output::Output;
use crate::report::Report;
use mlprof_events::{Action, Interest, Observation, OpStart, RunContext, Stage};

pub use self::ext::{ProfiledIterator, ProfilerExt, Scope};
pub use self::inner::{Inner, Internals};
pub(crate) use self::inner::{
    accepted, guarded_profiler, has_internals, is_open, name_of, passes_on_to,
};

/// Receives the events that hooks measure and produces a report from them.
///
/// Hooks, guards, training loops and sessions call these methods. A program itself usually calls
/// only [`summary`](Self::summary), [`report`](Self::report) and [`describe`](Self::describe). The
/// only required methods are [`start`](Self::start) and [`stop`](Self::stop).
///
/// | role | methods |
/// |---|---|
/// | receive events | [`start`](Self::start), [`stop`](Self::stop), [`interest`](Self::interest), [`start_op`](Self::start_op), [`observe`](Self::observe) |
/// | follow the lifecycle | [`setup`](Self::setup), [`teardown`](Self::teardown) |
/// | report | [`summary`](Self::summary), [`report`](Self::report), [`output`](Self::output), [`describe`](Self::describe) |
/// | wrap another profiler | [`inner`](Self::inner) |
///
/// [`ProfilerExt`] adds the operations available on every profiler: opening scopes, marking steps
/// and rendering a report.
///
/// # Examples
///
/// A profiler that counts each action and remembers the order in which actions first occurred:
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
///
/// use mlprof_core::{Action, NeverStarted, Profiler, ProfilerExt, Stage};
///
/// /// Position in the order of first occurrences and number of calls, by action.
/// #[derive(Default)]
/// struct ActionCountProfiler(Mutex<HashMap<Action, (usize, u64)>>);
///
/// impl Profiler for ActionCountProfiler {
///     fn start(&self, action: Action) {
///         let mut counts = self.0.lock().unwrap();
///         let place = counts.len() + 1;
///         counts.entry(action).or_insert((place, 0)).1 += 1;
///     }
///     fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
///         Ok(())
///     }
///     fn teardown(&self, _stage: Option<Stage>) {
///         self.0.lock().unwrap().clear();
///     }
///     fn summary(&self) -> String {
///         let counts = self.0.lock().unwrap();
///         let mut rows: Vec<_> = counts.iter().map(|(action, row)| (row, action.name())).collect();
///         rows.sort();
///         rows.iter().map(|((place, calls), name)| format!("{place}. {name}: {calls}\n")).collect()
///     }
/// }
///
/// let profiler = ActionCountProfiler::default();
/// for _ in 0..3 {
///     let _batch = profiler.profile("run_training_batch");
///     drop(profiler.profile("forward"));
/// }
/// assert_eq!(profiler.summary(), "1. run_training_batch: 3\n2. forward: 3\n");
/// profiler.describe(); // prints these lines and ends the stage
/// assert_eq!(profiler.summary(), "");
/// ```
///
/// # Order of calls
///
/// A [`Session`](crate::Session), which every trainer opens, uses a profiler for one stage. It
/// makes the calls in this order:
///
/// 1. [`interest`](Self::interest): if it returns [`Interest::NONE`], a trainer runs as if it had
///    no profiler.
/// 2. [`setup`](Self::setup), then [`activate`](crate::activate), which calls
///    [`interest`](Self::interest) again and sends [`Observation::Unattributed`].
/// 3. [`start`](Self::start), [`start_op`](Self::start_op), [`stop`](Self::stop) and
///    [`observe`](Self::observe), on all threads of the program concurrently.
/// 4. [`describe`](Self::describe), which calls [`summary`](Self::summary),
///    [`report`](Self::report) and [`output`](Self::output), then [`teardown`](Self::teardown).
///
/// Stages can nest, for example if a validation inside a fit has its own session. The inner stage
/// then goes through all steps before the outer stage ends. A guard that outlives its stage calls
/// [`stop`](Self::stop) after the last step. A program that never activates a profiler, and only
/// uses its guards and [`describe`](Self::describe), skips the first two steps.
///
/// # Threads
///
/// - *Event methods* run on the thread that does the work, and many threads call them concurrently.
///   On each thread, starts and stops are properly nested if the program uses guards.
/// - *Delayed observations*, such as kernel times or device counters, may arrive on any thread,
///   including mlprof's own threads.
/// - *Lifecycle methods* run on the thread that runs the training loop.
///   [`describe`](Self::describe) also runs there, or on an mlprof thread if a signal ends the
///   process.
/// - [`summary`](Self::summary) and [`report`](Self::report) may run on any thread at any time:
///   `mlprof record` and `mlprof top` read reports during training.
///
/// # What a method may do
///
/// - *Re-entrancy*: while a thread is inside a method of its active profiler, it does not deliver
///   events to any active profiler. A method may therefore allocate, run tensor ops, open scopes
///   and [activate](crate::activate) another profiler. This applies to the methods that receive
///   events through the active profiler. It does not apply to reports or to calls that the program
///   makes itself.
/// - *Locks*: mlprof holds none of its own locks while it calls a method that receives events, so
///   the method may take a lock. A profiler with [`Interest::MEMORY`] is called inside the
///   program's allocator. Such a profiler must not allocate in other methods, for example in
///   [`summary`](Self::summary), while it holds a lock that [`observe`](Self::observe) takes.
/// - *Panics* do not reach the program. After the first panic in any method, mlprof no longer calls
///   the profiler. It prints one line with the profiler's type name on standard error. This applies
///   to calls by hooks, sessions and trainers, but not to calls that the program makes itself.
/// - *Forks*: a forked child has a copy of the profiler, but does not deliver a report for the
///   stage of its parent.
///
/// # Cost
///
/// A scope costs two calls through `dyn Profiler`: [`start`](Self::start) and [`stop`](Self::stop).
/// That path has no other virtual calls. The time spent in these two methods is included in every
/// measured scope. mlprof's Simple profiler takes about 20 ns for both. Hooks cache
/// [`interest`](Self::interest), so it costs nothing per scope.
///
/// # Wrapping another profiler
///
/// A profiler that filters or counts on behalf of another one returns it from
/// [`inner`](Self::inner). Every method that the wrapper does not override then forwards to the
/// inner profiler. No event is lost, including event kinds that later versions add:
///
/// ```
/// use mlprof_core::{Action, Inner, NeverStarted, Profiler, ProfilerExt, SimpleProfiler};
///
/// /// Measures everything except `load_data`.
/// struct WithoutLoading<P>(P);
///
/// impl<P: Profiler> Profiler for WithoutLoading<P> {
///     fn start(&self, action: Action) {
///         if action.name() != "load_data" {
///             self.0.start(action);
///         }
///     }
///     fn stop(&self, action: Action) -> Result<(), NeverStarted> {
///         if action.name() == "load_data" { Ok(()) } else { self.0.stop(action) }
///     }
///     fn inner(&self) -> Inner<'_> {
///         Inner::of(&self.0)
///     }
/// }
///
/// let profiler = WithoutLoading(SimpleProfiler::new());
/// drop(profiler.profile("load_data"));
/// drop(profiler.profile("forward"));
/// profiler.step(); // reaches the Simple profiler
/// let summary = profiler.summary(); // the summary of the Simple profiler
/// assert!(summary.contains("forward") && !summary.contains("load_data"), "{summary}");
/// ```
pub trait Profiler: TypeName + Send + Sync {
    /// Starts `action` on the calling thread. If the same action is already open, the new one nests
    /// inside it.
    ///
    /// Guards, [`profile!`](crate::profile!) and hooks call it at the beginning of every scope: see
    /// [*Cost*](#cost).
    fn start(&self, action: Action);

    /// Stops the innermost open `action` of the calling thread.
    ///
    /// It is called on the thread that called [`start`](Self::start), including while a panic
    /// unwinds. It also ends ops opened by [`start_op`](Self::start_op).
    ///
    /// # Errors
    ///
    /// [`NeverStarted`] if the action is not open on this thread. The profiler then records nothing
    /// and keeps working. Guards ignore the error.
    fn stop(&self, action: Action) -> Result<(), NeverStarted>;

    /// Returns the events that the profiler wants to receive, so that hooks skip all other work.
    /// The default is [`Interest::ACTIONS`].
    ///
    /// It is called when the profiler is [activated](crate::activate) and after
    /// [`hook::interest_changed`](crate::hook::interest_changed), on any thread. Hooks cache the
    /// result. A profiler must call that function when its interest changes.
    fn interest(&self) -> Interest {
        self.inner().wrapped().map_or(Interest::ACTIONS, |inner| inner.interest())
    }

    /// Starts a tensor op on the calling thread. Calling [`stop`](Self::stop) with the op's action
    /// ends it. By default, an op is handled like any other action.
    ///
    /// Framework hooks call it, and only with [`Interest::OPS`]. The inputs are present only with
    /// [`Interest::SHAPES`] and are valid only during the call. A wrapper that overrides
    /// [`start`](Self::start) must also override this method if it handles ops the same way.
    fn start_op(&self, op: &OpStart<'_>) {
        match self.inner().wrapped() {
            Some(inner) => inner.start_op(op),
            None => self.start(op.action),
        }
    }

    /// Receives an event other than a start or a stop: the end of a step, a memory event, kernel
    /// times or a note for the report. The default implementation ignores it.
    ///
    /// Hooks and training loops call it if the profiler has the observation's
    /// [interest](Observation::interest). Observations without an interest, which concern steps and
    /// stages, go to every profiler. [`Observation`] documents the thread of each kind. The
    /// observation is valid only during the call. [`Observation::Control`] lets a profiler end the
    /// training.
    fn observe(&self, observation: &Observation<'_>) {
        if let Some(inner) = self.inner().wrapped() {
            inner.observe(observation);
        }
    }

    /// Begins a stage, to which all further measurements belong. The default implementation
    /// forwards to the [`output`](Self::output), which names files after the stage.
    ///
    /// It is called once per stage on the thread that runs the training loop, before the profiler
    /// becomes active. Stages may nest.
    fn setup(&self, stage: Stage, run: &RunContext) {
        match self.inner().wrapped() {
            Some(inner) => inner.setup(stage, run),
            None => self.output().into_iter().for_each(|output| output.setup(stage, run)),
        }
    }

    /// Ends `stage`, or the innermost stage if it is `None`. The default implementation forwards to
    /// the [`output`](Self::output).
    ///
    /// [`describe`](Self::describe) calls it once per stage, after the report.
    fn teardown(&self, stage: Option<Stage>) {
        match self.inner().wrapped() {
            Some(inner) => inner.teardown(stage),
            None => self.output().into_iter().for_each(|output| output.teardown(stage)),
        }
    }

    /// Returns the report as text. The default is an empty string.
    ///
    /// It may be called at any time, on any thread, while other threads record. It does not change
    /// the measurements.
    fn summary(&self) -> String {
        self.inner().wrapped().map_or_else(String::new, |inner| inner.summary())
    }

    /// Returns the report as a structured value for other programs. The default is `None`.
    ///
    /// It may be called at any time, on any thread, while other threads record. It does not change
    /// the measurements.
    fn report(&self) -> Option<Report> {
        self.inner().wrapped().and_then(|inner| inner.report())
    }

    /// Returns the destination of the reports. `None`, the default, is the console on rank 0.
    ///
    /// It is called for every report and must return the same destination each time.
    fn output(&self) -> Option<&Output> {
        self.inner().wrapped().and_then(|inner| inner.output())
    }

    /// Writes the [rendered](ProfilerExt::render) report to the file of the
    /// [`output`](Self::output), or prints it to the console on rank 0. Then it ends the stage with
    /// [`teardown`](Self::teardown). The output may also request JSON and an HTML page.
    ///
    /// It is called at the end of each stage, after the profiler has been deactivated. Before a
    /// signal ends the process, mlprof's signal thread calls it while other threads still record.
    ///
    /// This method never fails. If a file cannot be written, it prints an error once on standard
    /// error and prints the report on the console.
    fn describe(&self) {
        self.render().deliver(self.output());
        self.teardown(None);
    }

    /// Returns the profiler that this one wraps, if any: see [*Wrapping another
    /// profiler*](#wrapping-another-profiler). The default is [`Inner::NONE`].
    ///
    /// It is called often and on any thread. It must return the same profiler each time and do no
    /// other work.
    fn inner(&self) -> Inner<'_> {
        Inner::NONE
    }
}

/// Type name used in messages about a profiler. Every type implements this trait.
#[doc(hidden)]
pub trait TypeName {
    /// Returns the full path of the type.
    fn type_name(&self) -> &'static str;
}

impl<T> TypeName for T {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<T>()
    }
}

/// Error for stopping an action that was not started on the calling thread.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Attempting to stop recording an action ({name}) which was never started.", name = .0.name())]
pub struct NeverStarted(pub Action);

mlprof_events::debug_as_display!(NeverStarted);
