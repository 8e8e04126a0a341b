//! The life of a profiler during one of burn's stages.

use std::sync::Arc;

use profiler_core::{Action, Interrupt, IntoProfiler, Profiler, RunContext, Session, Stage};

use crate::screen::MainScreen;

/// A session whose report stands on the main screen, also while burn's dashboard has the terminal.
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
    Session::begin(profiler, stage, run).around_report(on_main_screen).on_interrupt(interrupt)
}

/// The same profiler, with whoever may look in from here on beside it.
pub(crate) fn listening(profiler: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
    profiler_core::watcher::listen();
    // A profiler is no unknown name.
    profiler.clone().into_profiler().unwrap_or(profiler)
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

/// What runs while it lives belongs to no step, also if it panics.
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
