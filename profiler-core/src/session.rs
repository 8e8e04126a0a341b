//! The life of a profiler during one stage: set up, active, described, whatever happens.

use std::sync::Arc;

use crate::active::RunningLoop;
use crate::interrupt::{self, Interrupt, PendingReport, Terminating, Watch};
use crate::select::resolve;
use crate::watcher::{self, with_watcher};
use crate::{Activated, Error, IntoProfiler, Profiler, ProfilerExt, RunContext, Stage, activate};

/// Keeps a profiler active for a stage and delivers its report when dropped, also while a panic
/// unwinds, and before a signal ends the process. What a training loop holds from the beginning of
/// a stage to its end.
///
/// ```
/// use mlprof_core::{RunContext, Session, Stage, profile};
///
/// let session = Session::begin("simple", Stage::Fit, &RunContext::default())?;
/// {
///     let _scope = profile!("run_training_batch");
/// }
/// drop(session); // prints FIT Profiler Report
/// # Ok::<(), mlprof_core::Error>(())
/// ```
///
/// Ctrl-C, SIGTERM and SIGHUP end the process as they do without a profiler, but the report comes
/// first; see the module [`interrupt`]. Who wants to go on says so:
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
#[must_use = "the stage ends, and its report comes, when this is dropped"]
pub struct Session {
    profiler: Arc<dyn Profiler>,
    stage: Stage,
    run: RunContext,
    activated: Option<Activated>,
    report: Arc<PendingReport>,
    on_signal: OnSignal,
    /// Of a profiler that is enabled.
    running: Option<RunningLoop>,
    /// Whether there will be a report: who only watches has none.
    reports: bool,
}
mlprof_events::debug_as_name!([] Session);

/// What its fields hold lasts until the report is there: a report must not be cut short by the
/// signal that asked for it.
enum OnSignal {
    /// Without a profiler nothing is changed.
    Nothing,
    Terminate {
        _part: Terminating,
    },
    Return(Watch),
}

impl Session {
    /// Sets a profiler up for `stage` and makes it the active one. It may be whatever a trainer's
    /// `.profiler(…)` takes: see [`IntoProfiler`].
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
    /// [`Error`] for a name that is not one of [`PROFILER_NAMES`](crate::PROFILER_NAMES), and for a
    /// profiler with a schedule that would never record a step.
    pub fn begin(
        profiler: impl IntoProfiler,
        stage: Stage,
        run: &RunContext,
    ) -> Result<Self, Error> {
        Ok(Self::with(profiler.into_profiler()?, stage, run))
    }

    /// [`begin`](Self::begin) for a profiler that [`IntoProfiler`] has accepted.
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

    /// Who measures: the profiler that was chosen, or what the environment or `mlprof run` have put in
    /// its place or beside it; see [`IntoProfiler`].
    pub fn profiler(&self) -> &Arc<dyn Profiler> {
        &self.profiler
    }

    /// Whether the process listens to `mlprof ps`, `mlprof top` and `mlprof record` from here on,
    /// to its end, as with `MLPROF_LIVE=1` in its environment; this stage is the first that they
    /// see. `false` leaves that to the environment, and `MLPROF_LIVE=0` forbids it. It takes one of
    /// mlprof's plugins, or the crate `mlprof-live`; what is in the way is said on standard error,
    /// and the stage goes on.
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
    /// Steps are counted by telling [`profiler`](Self::profiler) of them, as above: the profiler that the session was
    /// begun with does not know who looks in.
    ///
    /// *Cost*: some nanoseconds per action, and a lock that nobody else holds per step.
    pub fn live(mut self, listens: bool) -> Self {
        if listens {
            watcher::listen();
            self.is_watched();
        }
        self
    }

    /// Has whoever watches from outside hear of this stage, if that is not so already.
    fn is_watched(&mut self) {
        let Some(profiler) = with_watcher(&self.profiler) else { return };
        // What is active is told together with it since it began to watch.
        self.running.get_or_insert_with(RunningLoop::begin);
        watcher::stage_began(self.stage, &self.run);
        self.report.set_profiler(profiler.clone());
        self.profiler = profiler;
    }

    /// What Ctrl-C and other requests to end do during this stage, also without a profiler.
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        let is_returning = matches!(self.on_signal, OnSignal::Return(_));
        match interrupt {
            Interrupt::Return if !is_returning => {
                // The new one begins before the old one ends, so that no signal slips through.
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

    /// Whether a signal has asked for the end of this stage: only with [`Interrupt::Return`].
    ///
    /// *Cost*: one relaxed load.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        matches!(&self.on_signal, OnSignal::Return(watch) if watch.requested())
    }

    /// Has `around` called with what delivers the report, at the end or before a signal ends the
    /// process: for what has to be done before and after it is printed.
    #[doc(hidden)]
    pub fn around_report(self, around: fn(&dyn Fn())) -> Self {
        self.report.set_around(around);
        self
    }
}

/// Whether it is enabled for itself: without who is beside it, and sees to its own reports.
fn has_report(profiler: &Arc<dyn Profiler>) -> bool {
    match profiler.parts() {
        [] => profiler.is_enabled(),
        parts => parts.iter().any(has_report),
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // First nobody adds to the report any more. In a forked child the stage is its parent's:
        // nothing is delivered.
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
