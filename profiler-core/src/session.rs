//! The lifecycle of a profiler during one stage: setup, activation and report.

use std::sync::Arc;

use crate::active::RunningLoop;
use crate::interrupt::{self, Interrupt, PendingReport, Terminating, Watch};
use crate::select::resolve;
use crate::watcher::{self, with_watcher};
use crate::{Activated, Error, IntoProfiler, Profiler, ProfilerExt, RunContext, Stage, activate};

/// RAII guard that keeps a profiler active for one stage of a training loop. It delivers the report
/// when dropped, including while a panic unwinds, and also before a signal ends the process.
///
/// ```
/// use mlprof_core::{RunContext, Session, Stage, profile};
///
/// let session = Session::begin("simple", Stage::Fit, &RunContext::default())?;
/// {
///     let _scope = profile!("run_training_batch");
/// }
/// drop(session); // prints the FIT Profiler Report
/// # Ok::<(), mlprof_core::Error>(())
/// ```
///
/// Ctrl-C, SIGTERM and SIGHUP end the process as they do without a profiler, but only after the
/// report has been delivered. See the module [`interrupt`]. With [`Interrupt::Return`] the program
/// continues after such a signal:
///
/// ```
/// # use mlprof_core::{Interrupt, RunContext, Session, SimpleProfiler, Stage};
/// # use std::sync::Arc;
/// # let profiler = Arc::new(SimpleProfiler::new());
/// let session = Session::begin(profiler, Stage::Fit, &RunContext::default())?
///     .on_interrupt(Interrupt::Return);
/// for batch in 0..3 {
///     // … train …
///     if session.is_interrupted() {
///         break;
///     }
/// }
/// # Ok::<(), mlprof_core::Error>(())
/// ```
#[must_use = "the stage ends, and its report appears, when this is dropped"]
pub struct Session {
    profiler: Arc<dyn Profiler>,
    stage: Stage,
    run: RunContext,
    activated: Option<Activated>,
    report: Arc<PendingReport>,
    on_signal: OnSignal,
    /// Marks a running training loop. `None` if the profiler is disabled.
    running: Option<RunningLoop>,
    /// `true` if the stage produces a report. An external watcher alone does not produce one.
    reports: bool,
}
mlprof_events::debug_as_name!([] Session);

/// Response to a request to end. Its guards are held until the report is delivered, so that the
/// signal which requested the end does not cut the report short.
enum OnSignal {
    /// Signal handling stays unchanged because there is no profiler.
    Nothing,
    Terminate {
        _part: Terminating,
    },
    Return(Watch),
}

impl Session {
    /// Sets up a profiler for `stage` and makes it the active one. It accepts the same values as
    /// `.profiler(…)` of a trainer: see [`IntoProfiler`].
    ///
    /// ```
    /// use mlprof_core::{RunContext, Session, Stage};
    ///
    /// let of_command_line: Option<String> = std::env::args().nth(1);
    /// let session = Session::begin(of_command_line, Stage::Fit, &RunContext::default())?;
    /// # Ok::<(), mlprof_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error`] in two cases:
    ///
    /// - The name is not one of [`PROFILER_NAMES`](crate::PROFILER_NAMES).
    /// - The profiler has a schedule that would never record a step.
    pub fn begin(
        profiler: impl IntoProfiler,
        stage: Stage,
        run: &RunContext,
    ) -> Result<Self, Error> {
        Ok(Self::with(profiler.into_profiler()?, stage, run))
    }

    /// Begins a session, like [`begin`](Self::begin), with a profiler that [`IntoProfiler`] has
    /// already accepted.
    #[doc(hidden)]
    pub fn with(profiler: Arc<dyn Profiler>, stage: Stage, run: &RunContext) -> Self {
        let profiler = resolve(profiler);
        let running = profiler.is_enabled().then(RunningLoop::begin);
        let reports = has_report(&profiler);
        profiler.setup(stage, run);
        let report = PendingReport::new(profiler.clone());
        let on_signal = if reports {
            report.enlist();
            OnSignal::Terminate { _part: Terminating::begin() }
        } else {
            OnSignal::Nothing
        };
        let activated = Some(activate(profiler.clone()));
        let run = run.clone();
        Self { profiler, stage, run, activated, report, on_signal, running, reports }
    }

    /// Returns the profiler that measures this stage. The environment or `mlprof run` may have
    /// replaced the chosen profiler or added others to it: see [`IntoProfiler`].
    pub fn profiler(&self) -> &Arc<dyn Profiler> {
        &self.profiler
    }

    /// Makes the process accept `mlprof ps`, `mlprof top` and `mlprof record` until it exits, like
    /// `MLPROF_LIVE=1` in the environment. This stage is the first that they can see.
    ///
    /// - `false` leaves the choice to the environment, and `MLPROF_LIVE=0` disables it in any case.
    /// - It requires one of mlprof's plugins or the crate `mlprof-live`.
    /// - A failure is reported on standard error, and the stage continues.
    ///
    /// ```
    /// use mlprof_core::{ProfilerExt, RunContext, Session, Stage, profile};
    ///
    /// let session = Session::begin("none", Stage::Fit, &RunContext::default())?.live(true);
    /// for batch in 0..3 {
    ///     let _scope = profile!("training_step");
    ///     // … train …
    ///     session.profiler().step();
    /// }
    /// # Ok::<(), mlprof_core::Error>(())
    /// ```
    ///
    /// To count steps, call `step` on the profiler that [`profiler`](Self::profiler) returns, as in
    /// the example. Calls on the profiler passed to [`begin`](Self::begin) do not reach the
    /// watching commands.
    ///
    /// *Cost*: a few nanoseconds per action, and one uncontended lock per step.
    pub fn live(mut self, listens: bool) -> Self {
        if listens {
            watcher::listen();
            self.is_watched();
        }
        self
    }

    /// Registers this stage with external watchers, unless that has already happened.
    fn is_watched(&mut self) {
        let Some(profiler) = with_watcher(&self.profiler) else { return };
        // The stage had no running loop if its own profiler is disabled. With a watcher it needs
        // one.
        self.running.get_or_insert_with(RunningLoop::begin);
        watcher::stage_began(self.stage, &self.run);
        self.report.set_profiler(profiler.clone());
        self.profiler = profiler;
    }

    /// Sets the response to Ctrl-C and other termination signals during this stage. It also works
    /// without a profiler.
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        let is_returning = matches!(self.on_signal, OnSignal::Return(_));
        match interrupt {
            Interrupt::Return if !is_returning => {
                // The new watch begins before the old guard is dropped, so that no signal is missed
                // in between.
                self.on_signal = OnSignal::Return(interrupt::watch());
                self.report.delist();
            }
            Interrupt::Terminate if is_returning && self.reports => {
                self.report.enlist();
                self.on_signal = OnSignal::Terminate { _part: Terminating::begin() };
            }
            Interrupt::Terminate if is_returning => self.on_signal = OnSignal::Nothing,
            _ => {}
        }
        self
    }

    /// Returns `true` if a signal has requested the end of this stage. It requires
    /// [`Interrupt::Return`].
    ///
    /// *Cost*: one relaxed load.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        matches!(&self.on_signal, OnSignal::Return(watch) if watch.requested())
    }

    /// Sets a wrapper around the delivery of the report, at the end of the stage or before a signal
    /// ends the process. `around` receives the delivery as a function. Use it for work that must
    /// happen before or after printing.
    #[doc(hidden)]
    pub fn around_report(self, around: fn(&dyn Fn())) -> Self {
        self.report.set_around(around);
        self
    }
}

/// Returns `true` if the profiler itself is enabled. Attached profilers that deliver their own
/// reports do not count.
fn has_report(profiler: &Arc<dyn Profiler>) -> bool {
    match profiler.parts() {
        [] => profiler.is_enabled(),
        parts => parts.iter().any(has_report),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The profiler is deactivated first, so that no thread adds to the report any more. A
        // forked child delivers nothing, because the stage belongs to its parent.
        self.activated.take();
        self.report.deliver();
        interrupt::end_of_stage();
        self.report.delist();
        self.running.take();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::tensor::Schedule;
    use crate::{PassThroughProfiler, SimpleProfiler};

    #[test]
    fn a_session_begins_with_whatever_a_trainer_takes() {
        fn begin(profiler: impl IntoProfiler) -> Session {
            let run = RunContext::default();
            Session::begin(profiler, Stage::Predict, &run).expect("a profiler")
        }
        drop(begin("none"));
        drop(begin(String::from("None")));
        drop(begin(None::<&str>));
        drop(begin(PassThroughProfiler::new()));
        let shared: Arc<dyn Profiler> = Arc::new(PassThroughProfiler::new());
        drop(begin(shared));
        let simple = Arc::new(SimpleProfiler::new());
        let session = begin(simple.clone());
        assert!(session.running.is_some());
        drop(simple.profile("predict"));
        drop(session);
        let report = simple.snapshot();
        assert_eq!(report.header.stage, Some(Stage::Predict));
        assert!(report.actions.iter().any(|row| row.action == "predict"), "{report:?}");
        let error = Session::begin("smiple", Stage::Fit, &RunContext::default()).err();
        assert!(matches!(error, Some(Error::UnknownProfiler { name, .. }) if name == "smiple"));
    }

    #[test]
    fn a_schedule_that_records_nothing_is_refused_also_within_others() {
        let never = || crate::TensorProfiler::new().schedule(Schedule::new().active(0));
        let run = RunContext::default();
        let refused = |profiler: Result<Session, Error>| {
            assert!(matches!(profiler.err(), Some(Error::Schedule(_))));
        };
        refused(Session::begin(never(), Stage::Fit, &run));
        refused(Session::begin(Some(Arc::new(never())), Stage::Fit, &run));
        refused(Session::begin(("simple", never()), Stage::Fit, &run));
        let parts: Vec<Arc<dyn Profiler>> = vec![Arc::new(never())];
        refused(Session::begin(crate::MultiProfiler::of(parts), Stage::Fit, &run));
        let mended = never().schedule(Schedule::new());
        assert!(Session::begin(mended, Stage::Fit, &run).is_ok());
    }
}
