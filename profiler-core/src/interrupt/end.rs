//! The end of a process by a signal.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Ends the process as `signal` does by itself. May be called in a handler.
pub(super) fn end_by(signal: c_int) {
    // SAFETY: the sets and the action are valid, and all four functions may be called in a handler.
    unsafe {
        let mut default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        let mut only = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
    }
}
