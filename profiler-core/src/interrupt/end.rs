//! Ending the process by a signal.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Returns `true` if the system drops signals with the default action. Linux does this for the
/// first process of a container (a PID namespace). Async-signal-safe.
pub(crate) fn drops_signals() -> bool {
    std::process::id() == 1
}

/// Ends the process with the default action of `signal`. If the system drops that signal, it exits
/// with the code that a shell shows for the signal. Async-signal-safe.
pub(crate) fn end_by(signal: c_int) -> ! {
    // SAFETY:
    //
    // - All pointers refer to initialised local values, and null is allowed for the previous action
    //   and mask.
    // - Zero is a valid bit pattern for `sigaction` and `sigset_t`.
    // - All functions are async-signal-safe, so a signal handler may call them.
    unsafe {
        let mut default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        default.sa_sigaction = libc::SIG_DFL;
        libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        let mut only = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::raise(signal);
        libc::_exit(128 + signal)
    }
}
