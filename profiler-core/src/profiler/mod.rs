//! The seam: the [`Profiler`] trait, which hooks call, and the guards that start and stop actions
//! through it.

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

/// Receives what hooks measure, and makes a report of it.
///
/// Hooks, guards, training loops and sessions call these methods; a program calls at most
/// [`summary`](Self::summary), [`report`](Self::report) and [`describe`](Self::describe) itself.
/// Only [`start`](Self::start) and [`stop`](Self::stop) must be written.
///
/// | role | methods |
/// |---|---|
/// | receive events | [`start`](Self::start), [`stop`](Self::stop), [`interest`](Self::interest), [`start_op`](Self::start_op), [`observe`](Self::observe) |
/// | follow the lifecycle | [`setup`](Self::setup), [`teardown`](Self::teardown) |
/// | report | [`summary`](Self::summary), [`report`](Self::report), [`output`](Self::output), [`describe`](Self::describe) |
/// | wrap another profiler | [`inner`](Self::inner) |
///
/// [`ProfilerExt`] adds what every profiler can do: open scopes, mark steps, render a report.
///
/// # Examples
///
/// A profiler that counts each action and remembers its first occurrence:
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::Mutex;
///
/// use mlprof_core::{Action, NeverStarted, Profiler, ProfilerExt, Stage};
///
/// /// Number of calls, by action, and the action's place in the order of first occurrences.
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
/// profiler.describe(); // prints these lines, and ends the stage
/// assert_eq!(profiler.summary(), "");
/// ```
///
/// # Order of calls
///
/// A [`Session`](crate::Session) (which every trainer opens) uses a profiler for one stage. The
/// calls come in this order:
///
/// 1. [`interest`](Self::interest): with [`Interest::NONE`] a trainer runs as if it had no
///    profiler.
/// 2. [`setup`](Self::setup), then [`activate`](crate::activate): [`interest`](Self::interest)
///    again, and [`Observation::Unattributed`].
/// 3. [`start`](Self::start), [`start_op`](Self::start_op), [`stop`](Self::stop) and
///    [`observe`](Self::observe), on all threads of the program at once.
/// 4. [`describe`](Self::describe), which reads [`summary`](Self::summary),
///    [`report`](Self::report) and [`output`](Self::output), and calls
///    [`teardown`](Self::teardown).
///
/// A stage inside another one (a validation with a session of its own inside a fit) repeats all
/// steps before the outer stage ends. A guard that outlives its stage calls [`stop`](Self::stop)
/// after step
/// 4. A program that never activates a profiler, and calls only its guards and
/// [`describe`](Self::describe), omits steps 1 and 2.
///
/// # Threads
///
/// Methods that receive events run on the thread that does the work, and many threads call them at
/// once. On each thread, starts and stops nest like brackets as long as guards are used. Delayed
/// observations (a kernel's times, a counter of a device) may come from any thread, also from a
/// thread of mlprof. Lifecycle methods run on the thread that runs the training loop.
/// [`describe`](Self::describe) runs on that thread, or on a thread of mlprof where a signal ends
/// the process. [`summary`](Self::summary) and [`report`](Self::report) may run on any thread at
/// any time: `mlprof record` and `mlprof top` read reports while a training runs.
///
/// # What a method may do
///
/// - *Re-entrancy*: while a thread is inside a method of its active profiler, it does not deliver
///   events to any active profiler. So a method may allocate, run tensor ops and open scopes. It
///   may also [activate](crate::activate) another profiler. This holds for the methods that receive
///   events through the active profiler, not for reports and not for calls that the program makes
///   itself.
/// - *Locks*: mlprof holds no lock of its own while it calls a method that receives events, so a
///   method may take one. A profiler with [`Interest::MEMORY`] is called inside the program's
///   allocator: it must not allocate elsewhere (in [`summary`](Self::summary), say) while it holds
///   a lock that [`observe`](Self::observe) takes.
/// - *Panics* do not reach the program. After the first panic, of whatever method, mlprof no longer
///   calls the profiler, and one line on standard error names its type. This holds for calls by
///   hooks, sessions and trainers, not for calls that the program makes itself.
/// - *Forks*: a forked child has a copy of the profiler, and delivers no report of its parent's
///   stage.
///
/// # Cost
///
/// A scope costs two calls through `dyn Profiler`, [`start`](Self::start) and [`stop`](Self::stop),
/// and nothing else on that path is virtual. What these two do is measured in every scope of the
/// program: mlprof's Simple profiler takes some 20 ns for both. Hooks cache
/// [`interest`](Self::interest), so it costs nothing per scope.
///
/// # Wrapping another profiler
///
/// A profiler that filters or counts on behalf of another one names it in [`inner`](Self::inner).
/// Each method that it does not write then passes the call on to the inner profiler, so no event is
/// lost, also of kinds that later versions add:
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
/// let summary = profiler.summary(); // that of the Simple profiler
/// assert!(summary.contains("forward") && !summary.contains("load_data"), "{summary}");
/// ```
pub trait Profiler: TypeName + Send + Sync {
    /// Opens `action` on the calling thread. The same action may be open already: it then nests.
    ///
    /// Called by guards, by [`profile!`](crate::profile!) and by hooks, at the beginning of every
    /// scope: see [*Cost*](#cost).
    fn start(&self, action: Action);

    /// Closes the innermost open `action` of the calling thread.
    ///
    /// Called on the thread that called [`start`](Self::start), also while a panic unwinds. Ends
    /// ops of [`start_op`](Self::start_op), too.
    ///
    /// # Errors
    ///
    /// [`NeverStarted`] if the thread has no such action open. The profiler records nothing then
    /// and goes on. Guards ignore the error.
    fn stop(&self, action: Action) -> Result<(), NeverStarted>;

    /// Returns the events that the profiler wants to receive, so that hooks do no other work. By
    /// default [`Interest::ACTIONS`].
    ///
    /// Called when the profiler is [activated](crate::activate) and after
    /// [`hook::interest_changed`](crate::hook::interest_changed), on any thread, and cached. A
    /// profiler whose interest changes calls that function.
    fn interest(&self) -> Interest {
        self.inner().wrapped().map_or(Interest::ACTIONS, |inner| inner.interest())
    }

    /// Opens a tensor op on the calling thread; [`stop`](Self::stop) of its action closes it. By
    /// default an action like any other.
    ///
    /// Called by hooks of frameworks, only with [`Interest::OPS`]. The inputs are there only with
    /// [`Interest::SHAPES`], and live only during the call. A wrapper that writes
    /// [`start`](Self::start) writes this method, too, if ops are to take the same way.
    fn start_op(&self, op: &OpStart<'_>) {
        match self.inner().wrapped() {
            Some(inner) => inner.start_op(op),
            None => self.start(op.action),
        }
    }

    /// Receives an event other than a start or a stop: the end of a step, memory, a kernel's times,
    /// a note for the reader of the report. Ignored by default.
    ///
    /// Called by hooks and training loops, only with the observation's
    /// [interest](Observation::interest); every profiler receives those without one, which are
    /// about steps and stages. [`Observation`] says for each kind on which thread it comes. It
    /// lives only during the call. [`Observation::Control`] lets a profiler end the training.
    fn observe(&self, observation: &Observation<'_>) {
        if let Some(inner) = self.inner().wrapped() {
            inner.observe(observation);
        }
    }

    /// Begins a stage: measurements belong to it from here on. By default passed on to the
    /// [`output`](Self::output), which names files after the stage.
    ///
    /// Called once per stage, on the thread that runs the training loop, before the profiler is
    /// active. Stages may nest.
    fn setup(&self, stage: Stage, run: &RunContext) {
        match self.inner().wrapped() {
            Some(inner) => inner.setup(stage, run),
            None => self.output().into_iter().for_each(|output| output.setup(stage, run)),
        }
    }

    /// Ends `stage`, or the innermost stage for `None`. By default passed on to the
    /// [`output`](Self::output).
    ///
    /// Called once per stage by [`describe`](Self::describe), after the report.
    fn teardown(&self, stage: Option<Stage>) {
        match self.inner().wrapped() {
            Some(inner) => inner.teardown(stage),
            None => self.output().into_iter().for_each(|output| output.teardown(stage)),
        }
    }

    /// Returns the report as text. Empty by default.
    ///
    /// May be called at any time, on any thread, while other threads record; changes nothing.
    fn summary(&self) -> String {
        self.inner().wrapped().map_or_else(String::new, |inner| inner.summary())
    }

    /// Returns the report as a value that other programs can read. `None` by default.
    ///
    /// May be called at any time, on any thread, while other threads record; changes nothing.
    fn report(&self) -> Option<Report> {
        self.inner().wrapped().and_then(|inner| inner.report())
    }

    /// Returns the destination of the reports. `None` (the default) is the console, on rank 0.
    ///
    /// Called whenever a report is made. Has to return the same destination each time.
    fn output(&self) -> Option<&Output> {
        self.inner().wrapped().and_then(|inner| inner.output())
    }

    /// Delivers the [rendered](ProfilerExt::render) report to the file of the
    /// [`output`](Self::output), or to the console on rank 0, and ends the stage by
    /// [`teardown`](Self::teardown). The output may ask for JSON and an HTML page in addition.
    ///
    /// Called at the end of each stage, after the profiler has been deactivated; or by mlprof's
    /// signal thread before a signal ends the process, while other threads still record.
    ///
    /// Never fails: it reports a file that cannot be written once on standard error, and prints the
    /// report on the console.
    fn describe(&self) {
        self.render().deliver(self.output());
        self.teardown(None);
    }

    /// Returns the profiler that this one wraps, if it wraps one: see
    /// [*Wrapping another profiler*](#wrapping-another-profiler). None by default.
    ///
    /// Called often, by any thread: it has to return the same profiler each time, without work.
    fn inner(&self) -> Inner<'_> {
        Inner::NONE
    }
}

/// The name of a type, for messages about a profiler. Implemented by every type.
#[doc(hidden)]
pub trait TypeName {
    /// Returns the name of the type, with its path.
    fn type_name(&self) -> &'static str;
}

impl<T> TypeName for T {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<T>()
    }
}

/// An action was stopped that the thread had not started.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Attempting to stop recording an action ({name}) which was never started.", name = .0.name())]
pub struct NeverStarted(pub Action);

mlprof_events::debug_as_display!(NeverStarted);
