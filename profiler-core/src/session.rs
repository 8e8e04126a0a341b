//! The life of a profiler during one stage: set up, active, described, whatever happens.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Activated, Profiler, RunContext, Stage, activate};

/// Keeps a profiler active for a stage and delivers its report when dropped, also while a panic
/// unwinds. What a training loop holds from the beginning of a stage to its end.
///
/// ```
/// use profiler_core::{RunContext, Session, SimpleProfiler, Stage, profile};
/// use std::sync::Arc;
///
/// let session = Session::begin(Arc::new(SimpleProfiler::new()), Stage::Fit, &RunContext::default());
/// {
///     let _scope = profile!("run_training_batch");
/// }
/// drop(session); // prints FIT Profiler Report
/// ```
#[must_use = "the stage ends, and its report comes, when this is dropped"]
pub struct Session {
    profiler: Arc<dyn Profiler>,
    activated: Option<Activated>,
    /// Whether it is counted among those that [run](is_any_running).
    is_counted: bool,
}

/// Sessions of profilers that are enabled.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Whether some training loop tells a profiler of its actions and steps.
pub(crate) fn is_any_running() -> bool {
    RUNNING.load(Ordering::Relaxed) > 0
}

impl Session {
    /// Sets `profiler` up for `stage` and makes it the active one.
    pub fn begin(profiler: Arc<dyn Profiler>, stage: Stage, run: &RunContext) -> Self {
        let is_counted = profiler.is_enabled();
        if is_counted {
            RUNNING.fetch_add(1, Ordering::Relaxed);
        }
        profiler.setup(stage, run);
        let activated = Some(activate(profiler.clone()));
        Self { profiler, activated, is_counted }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // First nobody adds to the report any more.
        self.activated.take();
        // A second panic while one unwinds would abort the program: a profiler of the user's own
        // that panics costs its report, not the run.
        if catch_unwind(AssertUnwindSafe(|| self.profiler.describe())).is_err() {
            crate::output::say("mlprof: the profiler panicked while it made its report");
        }
        if self.is_counted {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
