//! The end of a process by a signal.

use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Whether the system drops signals whose action is the default one: those to the first process of
/// a container (of a namespace of processes). May be called in a handler.
pub(crate) fn drops_signals() -> bool {
    std::process::id() == 1
}

/// Ends the process as `signal` does by itself, and where the system drops that signal with the
/// exit code that a shell shows for it. May be called in a handler.
pub(crate) fn end_by(signal: c_int) -> ! {
    // SAFETY: the sets and the action are valid, and all functions may be called in a handler.
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
