//! Support for `mlprof run --live`: the process listens for `mlprof ps` and similar commands.

use std::sync::atomic::{AtomicBool, Ordering};

use super::enabled_flags::{want, wanted};
use crate::{build_settings, watcher};
use mlprof_events::run::RunSettings;

/// Set if the program has neither one of mlprof's training loops nor a hook that reports the end of
/// a step.
static TELLS_NO_STEPS: AtomicBool = AtomicBool::new(false);

/// Makes the process listen if the settings request it.
pub(super) fn begin(settings: &RunSettings) {
    if settings.live {
        want(wanted::STEPS, true);
        // A program with its own copy of the crate may report steps in other ways.
        let tells_none = !settings.has_steps && build_settings::is_apart();
        TELLS_NO_STEPS.store(tells_none, Ordering::Relaxed);
        watcher::listen();
    }
}

/// Returns the reason why this process never reports the end of a training step, if it is known.
pub fn why_no_steps() -> Option<&'static str> {
    TELLS_NO_STEPS.load(Ordering::Relaxed).then_some(
        "nothing reports this program's steps: it has no mlprof plugin, and `mlprof run` has added \
         no hook to its optimizer's step; use --ops candle or --ops burn-autodiff",
    )
}
