//! The life of a profiler during one of burn's stages.

use std::sync::Arc;

use profiler_core::{Action, Profiler, RunContext, Stage};

use crate::screen::MainScreen;

/// A [`profiler_core::Session`] whose report stands on the main screen, also while burn's dashboard
/// has the terminal.
pub(crate) struct Session(Option<profiler_core::Session>);

impl Session {
    pub(crate) fn begin(profiler: Arc<dyn Profiler>, stage: Stage, run: &RunContext) -> Self {
        Self(Some(profiler_core::Session::begin(profiler, stage, run)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _screen = MainScreen::show();
        self.0.take();
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
