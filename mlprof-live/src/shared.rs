//! What all doors share: the watcher, which does what is asked, and that a forked child opens its own doors.

use std::sync::{Arc, OnceLock, PoisonError};

use mlprof_core::watcher::watch_all;
use mlprof_events::forking::Mutex;

use crate::watcher::Watcher;

static WATCHER: OnceLock<Arc<Watcher>> = OnceLock::new();
/// What opens each door anew in a process that has none of its parent's threads.
static DOORS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// The watcher, if a door was opened.
pub(crate) fn watcher() -> Option<&'static Arc<Watcher>> {
    WATCHER.get()
}

/// Has the watcher hear of all trainings from here on. A door is open; `reopens` is called whenever a stage begins, and
/// opens it again in a forked child. To be called once per door.
pub(crate) fn door_is_open(reopens: fn()) {
    DOORS.lock().unwrap_or_else(PoisonError::into_inner).push(reopens);
    let watcher = WATCHER.get_or_init(|| Arc::new(Watcher::new(stage_begins)));
    watch_all(watcher.clone());
}

fn stage_begins() {
    // A copy: whoever opens a door may come back here.
    let doors = DOORS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    doors.iter().for_each(|reopens| reopens());
}
