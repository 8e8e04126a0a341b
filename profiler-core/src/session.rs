//! The life of a profiler during one stage: set up, active, described, whatever happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::interrupt::{self, Interrupt, PendingReport, Terminating, Watch};
use crate::{Activated, Profiler, RunContext, Stage, activate};

/// Keeps a profiler active for a stage and delivers its report when dropped, also while a panic
/// unwinds, and before a signal ends the process. What a training loop holds from the beginning of
/// a stage to its end.
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
///
/// Ctrl-C, SIGTERM and SIGHUP end the process as they do without a profiler, but the report comes
/// first; see the module [`interrupt`]. Who wants to go on says so:
///
/// ```
/// # use profiler_core::{Interrupt, RunContext, Session, SimpleProfiler, Stage};
/// # use std::sync::Arc;
/// # let profiler = Arc::new(SimpleProfiler::new());
/// let session = Session::begin(profiler, Stage::Fit, &RunContext::default())
///     .on_interrupt(Interrupt::Return);
/// for batch in 0..3 {
///     // … train …
///     if session.is_interrupted() {
///         break;
///     }
/// }
/// ```
#[must_use = "the stage ends, and its report comes, when this is dropped"]
pub struct Session {
    activated: Option<Activated>,
    report: Arc<PendingReport>,
    on_signal: OnSignal,
    /// Whether it is counted among those that [run](is_any_running).
    is_counted: bool,
}

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
        let report = PendingReport::new(profiler.clone());
        let on_signal = if is_counted {
            report.enlist();
            OnSignal::Terminate { _part: Terminating::begin() }
        } else {
            OnSignal::Nothing
        };
        let activated = Some(activate(profiler));
        Self { activated, report, on_signal, is_counted }
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
            Interrupt::Terminate if is_returning && self.is_counted => {
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
    pub fn around_report(self, around: fn(&dyn Fn())) -> Self {
        self.report.set_around(around);
        self
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // First nobody adds to the report any more.
        self.activated.take();
        self.report.deliver();
        interrupt::end_of_stage();
        self.report.delist();
        if self.is_counted {
            RUNNING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
