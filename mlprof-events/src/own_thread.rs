//! Threads that mlprof itself starts.

use std::cell::Cell;
use std::io;
use std::thread::{Builder, JoinHandle};

use crate::uncounted;

/// Prefix of the names of all threads that mlprof starts. They do not belong to the program.
pub const NAME_PREFIX: &str = "mlprof-";

thread_local!(static IS_OWN: Cell<bool> = const { Cell::new(false) });

/// Returns `true` if the calling thread was started by [`spawn`].
pub fn is_own() -> bool {
    IS_OWN.try_with(Cell::get).unwrap_or(false)
}

/// Starts a thread for `work`. From its first moment on, its allocations do not count as the
/// program's. It blocks all signals, so that the program's own threads receive them.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name.to_owned());
    without_signals(|| {
        builder.spawn(move || {
            IS_OWN.set(true);
            uncounted(work);
        })
    })
}

/// Runs `work` with all signals blocked, because a new thread inherits the signal mask of its
/// creator.
#[cfg(unix)]
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: `sigset_t` is a plain structure, for which all-zero bytes are valid.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the pointers refer to initialised local sets that outlive the calls. Only the mask of
    // this thread changes.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
    }
    let result = work();
    // SAFETY: `before` is a local set that `pthread_sigmask` filled. The third argument may be
    // null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

#[cfg(not(unix))]
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    work()
}
