//! Deferred work of a forked child, done before its first measured call.
//!
//! A child has a copy of everything that its parent has recorded, and records into that copy. The
//! counts so far belong to the parent, however. A fork handler in the child may do almost no work,
//! and most children soon execute another program. The handler therefore only forces the first
//! measured call onto a slow path, and the work happens there.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mlprof_events::forking::is_at_work;
use mlprof_events::panics::contain;
use mlprof_report::output::say;

/// Set while a child has not yet done its deferred work.
static IS_DUE: AtomicBool = AtomicBool::new(false);
static WORK: OnceLock<fn()> = OnceLock::new();

/// Registers `work`, which each later forked child does before its first call is measured.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
pub(crate) fn before_first_call(work: fn()) {
    // A process contains only one run, so only one kind of work is ever registered.
    let _ = WORK.set(work);
}

/// Marks the work of this forked child as due. A fork handler calls it while the child has one
/// thread.
pub(crate) fn begins() {
    if WORK.get().is_some() {
        IS_DUE.store(true, Ordering::Relaxed);
    }
}

/// Returns `true` while the work is still pending.
pub(crate) fn is_due() -> bool {
    IS_DUE.load(Ordering::Relaxed)
}

/// Does the pending work unless the calling thread holds one of mlprof's locks. Called only on slow
/// paths.
pub(crate) fn catch_up() {
    if IS_DUE.load(Ordering::Relaxed)
        && !is_at_work()
        && IS_DUE.swap(false, Ordering::Relaxed)
        && let Some(work) = WORK.get()
        && let Err(message) = contain(work)
    {
        // The measured call belongs to the program, so the panic must not reach it.
        say(format_args!(
            "mlprof: cannot measure this forked process: the profiler panicked: {message}"
        ));
    }
}
