//! The life of a profiler during one stage: set up, active, described, whatever happens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use profiler_core::{Action, Activated, Profiler, RunContext, Stage, activate};

use crate::screen::MainScreen;

/// Keeps a profiler active for a stage and delivers its report when dropped, also while a panic
/// unwinds.
pub(crate) struct Session {
    profiler: Arc<dyn Profiler>,
    activated: Option<Activated>,
}

impl Session {
    pub(crate) fn begin(profiler: Arc<dyn Profiler>, stage: Stage, run: &RunContext) -> Self {
        profiler.setup(stage, run);
        let activated = Some(activate(profiler.clone()));
        Self { profiler, activated }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // First nobody adds to the report any more.
        self.activated.take();
        let _screen = MainScreen::show();
        // A second panic while one unwinds would abort the program: a profiler of the user's own
        // that panics costs its report, not the run.
        if catch_unwind(AssertUnwindSafe(|| self.profiler.describe())).is_err() {
            eprintln!("mlprof: the profiler panicked while it made its report");
        }
    }
}

/// An open action that owns its profiler: for what begins in one function and ends in another.
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
        // Only a stop by hand in between makes this fail, and that call has been answered.
        let _ = self.profiler.stop(self.action);
    }
}
