//! What a forked child of a measured process does before its first call is measured.
//!
//! A child has a copy of all that its parent has recorded, and goes on to record into it; but what
//! the parent has counted is the parent's. The handler that the system calls in a child may do
//! hardly anything, and most children become another program at once. So that handler only makes
//! the first call that is measured take a slow path, and the work is done there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mlprof_events::forking::is_at_work;
use mlprof_events::panics::contain;
use mlprof_report::output::say;

/// The work of a child that has not been done yet.
static IS_DUE: AtomicBool = AtomicBool::new(false);
static WORK: OnceLock<fn()> = OnceLock::new();

/// Has forked children, from here on, do `work` before their first call is measured.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
pub(crate) fn before_first_call(work: fn()) {
    // There is one run in a process, and so one kind of work.
    let _ = WORK.set(work);
}

/// This process is a forked child, with one thread so far. Called in a fork handler.
pub(crate) fn begins() {
    if WORK.get().is_some() {
        IS_DUE.store(true, Ordering::Relaxed);
    }
}

/// Whether the work is still to be done.
pub(crate) fn is_due() -> bool {
    IS_DUE.load(Ordering::Relaxed)
}

/// Does the work, if it is due and the calling thread has no lock of ours. On slow paths only.
pub(crate) fn catch_up() {
    if IS_DUE.load(Ordering::Relaxed)
        && !is_at_work()
        && IS_DUE.swap(false, Ordering::Relaxed)
        && let Some(work) = WORK.get()
        && let Err(message) = contain(work)
    {
        // The call that is measured belongs to the program.
        say(format_args!(
            "mlprof: cannot measure this forked process: the profiler panicked: {message}"
        ));
    }
}
