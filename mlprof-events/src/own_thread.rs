//! Threads of ours.

use std::cell::Cell;
use std::io;
use std::thread::{Builder, JoinHandle};

use crate::uncounted;

/// What the names of all threads of ours begin with: they are not the program's.
pub const NAME_PREFIX: &str = "mlprof-";

thread_local!(static IS_OWN: Cell<bool> = const { Cell::new(false) });

/// Returns whether the calling thread was started by [`spawn`].
pub fn is_own() -> bool {
    IS_OWN.try_with(Cell::get).unwrap_or(false)
}

/// Starts one. What it allocates is not counted as the program's, and signals are left to the
/// program's own threads, from its first moment on.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let builder = Builder::new().name(name.to_owned());
    without_signals(|| {
        builder.spawn(move || {
            IS_OWN.set(true);
            uncounted(work);
        })
    })
}

/// A thread begins with the mask of the one that starts it.
#[cfg(unix)]
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: plain structures, for which all-zero is valid: the empty set.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: all are good during the calls; it is this thread's own mask that changes.
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
    }
    let result = work();
    // SAFETY: as above; `before` was filled.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

#[cfg(not(unix))]
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    work()
}
