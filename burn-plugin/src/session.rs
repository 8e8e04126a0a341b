//! Profiler sessions for the stages of burn.

use std::path::PathBuf;
use std::sync::Arc;

use mlprof_core::{Action, Interrupt, Profiler, ProfilerExt, RunContext, Session, Stage};

use crate::screen::MainScreen;

/// Settings of the stage that a profiled strategy begins; see
/// [`ProfileStrategyExt::profiler_with`](crate::ProfileStrategyExt::profiler_with).
///
/// ```
/// use mlprof_burn::StageSettings;
/// use mlprof_core::Interrupt;
///
/// let settings = StageSettings::new().on_interrupt(Interrupt::Return).log_dir("/tmp/run");
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "settings have no effect until a strategy receives them"]
pub struct StageSettings {
    pub(crate) interrupt: Interrupt,
    log_dir: Option<PathBuf>,
    seed: Option<u64>,
}

impl StageSettings {
    /// Creates the default settings, which `strategy.profiler(…)` uses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the effect of the first Ctrl-C, SIGTERM or SIGHUP. By default it ends the process after
    /// the report. With [`Interrupt::Return`] it ends the training with the reason
    /// [`INTERRUPTED`](crate::INTERRUPTED).
    pub fn on_interrupt(mut self, interrupt: Interrupt) -> Self {
        self.interrupt = interrupt;
        self
    }

    /// Sets the directory for reports whose profiler has a file name but no directory.
    pub fn log_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(directory.into());
        self
    }

    /// Records the program's random seed for the
    /// [`NumericsProfiler`](mlprof_core::NumericsProfiler). It does not set the seed.
    pub fn seeded_with(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Begins the stage of a training.
    pub(crate) fn begin(&self, profiler: &Arc<dyn Profiler>) -> Session {
        let mut run = RunContext::from_environment();
        run.log_dir.clone_from(&self.log_dir);
        run.seed = self.seed;
        begin_session(profiler.clone(), Stage::Fit, &run, self.interrupt)
    }
}

/// Begins a session whose report is printed on the main screen, even while burn's dashboard
/// controls the terminal.
pub(crate) fn begin_session(
    profiler: Arc<dyn Profiler>,
    stage: Stage,
    run: &RunContext,
    interrupt: Interrupt,
) -> Session {
    let on_main_screen = |deliver: &dyn Fn()| {
        let _screen = MainScreen::show();
        deliver();
    };
    Session::with(profiler, stage, run).around_report(on_main_screen).on_interrupt(interrupt)
}

/// An open action that owns its profiler, so that it can begin in one function and end in another.
pub(crate) struct OpenAction {
    profiler: Arc<dyn Profiler>,
    action: Action,
}

impl OpenAction {
    pub(crate) fn start(profiler: &Arc<dyn Profiler>, action: Action) -> Self {
        profiler.start(action);
        Self { profiler: profiler.clone(), action }
    }
}

impl Drop for OpenAction {
    fn drop(&mut self) {
        // This fails only if the action was stopped manually before, and that call already returned
        // its result.
        let _ = self.profiler.stop(self.action);
    }
}

/// RAII guard that excludes its lifetime from profiler steps, also during unwinding.
pub(crate) struct Pause(Arc<dyn Profiler>);

impl Pause {
    pub(crate) fn begin(profiler: &Arc<dyn Profiler>) -> Self {
        profiler.pause();
        Self(profiler.clone())
    }
}

impl Drop for Pause {
    fn drop(&mut self) {
        self.0.resume();
    }
}
