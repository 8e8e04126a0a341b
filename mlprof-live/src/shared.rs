//! State shared by all endpoints: the watcher that performs requests, and the functions that reopen
//! endpoints in a forked child.

use std::sync::{Arc, OnceLock, PoisonError};

use mlprof_core::watcher::watch_all;
use mlprof_events::forking::Mutex;

use crate::watcher::Watcher;

static WATCHER: OnceLock<Arc<Watcher>> = OnceLock::new();
/// Functions that reopen each endpoint in a forked child, which has none of its parent's threads.
static DOORS: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Returns the watcher, if an endpoint was opened.
pub(crate) fn watcher() -> Option<&'static Arc<Watcher>> {
    WATCHER.get()
}

/// Registers an open endpoint and makes the watcher observe all trainings. `reopens` is called
/// whenever a stage begins, and reopens the endpoint in a forked child. Must be called once per
/// endpoint.
pub(crate) fn door_is_open(reopens: fn()) {
    DOORS.lock().unwrap_or_else(PoisonError::into_inner).push(reopens);
    let watcher = WATCHER.get_or_init(|| Arc::new(Watcher::new(stage_begins)));
    watch_all(watcher.clone());
}

fn stage_begins() {
    // The list is copied, because opening an endpoint may call `door_is_open` again.
    let doors = DOORS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    doors.iter().for_each(|reopens| reopens());
}
