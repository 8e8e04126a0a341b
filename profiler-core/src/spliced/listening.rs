//! What `mlprof run --live` asks of a process: that it listens to `mlprof ps` and its like.

use std::sync::atomic::{AtomicBool, Ordering};

use super::enabled_flags::{want, wanted};
use crate::{build_settings, watcher};
use mlprof_events::run::RunSettings;

/// The program has no loop of ours, and no hook says when a step ends.
static TELLS_NO_STEPS: AtomicBool = AtomicBool::new(false);

/// Has the process listen, if the settings say so.
pub(super) fn begin(settings: &RunSettings) {
    if settings.live {
        want(wanted::STEPS, true);
        // A program with a copy of its own may tell of steps in other ways.
        let tells_none = !settings.has_steps && build_settings::is_apart();
        TELLS_NO_STEPS.store(tells_none, Ordering::Relaxed);
        watcher::listen();
    }
}

/// Why this process never says that a training step ends, if that is known.
pub fn why_no_steps() -> Option<&'static str> {
    TELLS_NO_STEPS.load(Ordering::Relaxed).then_some(
        "nothing tells of this program's steps: it has none of mlprof's plugins, and `mlprof run` has put no hook into its \
         optimizer's step, as --ops candle and --ops burn-autodiff do",
    )
}
