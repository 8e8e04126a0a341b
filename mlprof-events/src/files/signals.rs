//! Writes that send no signal to the program.

/// Calls `write` with `SIGXFSZ` and `SIGPIPE` blocked for this thread, and discards those that
/// `write` caused: its system calls have failed with an error anyway. The process's own handlers
/// and dispositions stay as they are.
///
/// Allocates nothing and only makes system calls, so a signal handler may call it.
#[cfg(unix)]
pub fn without_signals<T>(write: impl FnOnce() -> T) -> T {
    let _blocked = unix::BlockedSignals::begin();
    write()
}

/// Calls `write`: these systems send no signals.
#[cfg(not(unix))]
pub fn without_signals<T>(write: impl FnOnce() -> T) -> T {
    write()
}

#[cfg(unix)]
mod unix {
    use std::mem::MaybeUninit;
    use std::ptr;

    use libc::{c_int, sigset_t};

    const SIGNALS: [c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

    /// Blocks [`SIGNALS`] for this thread until it is dropped, and then discards the new ones.
    pub(super) struct BlockedSignals {
        before: sigset_t,
        /// Signals that were pending already, which the program has yet to receive.
        pending: [bool; 2],
    }

    fn set_of(signals: &[c_int]) -> sigset_t {
        let mut set = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: the pointer refers to local memory for one `sigset_t`, which `sigemptyset`
        // initialises before it is changed or read; the numbers are valid signals.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            set.assume_init()
        }
    }

    fn pending() -> [bool; 2] {
        let mut set = set_of(&[]);
        // SAFETY: the pointer refers to a local, initialised `sigset_t`.
        unsafe { libc::sigpending(&raw mut set) };
        // SAFETY: the pointer refers to a local `sigset_t` that `sigpending` has filled.
        SIGNALS.map(|signal| unsafe { libc::sigismember(&raw const set, signal) } == 1)
    }

    impl BlockedSignals {
        pub(super) fn begin() -> Self {
            let (blocked, mut before) = (set_of(&SIGNALS), set_of(&[]));
            // SAFETY: both pointers refer to initialised local `sigset_t`s.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
            }
            Self { before, pending: pending() }
        }
    }

    impl Drop for BlockedSignals {
        fn drop(&mut self) {
            let now = pending();
            for (index, signal) in SIGNALS.iter().enumerate() {
                if now[index] && !self.pending[index] {
                    discard(*signal);
                }
            }
            // SAFETY: the pointer refers to the set that `pthread_sigmask` filled in `begin`; a
            // null pointer as the third argument is allowed.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
            }
        }
    }

    /// Takes a pending signal of this thread.
    fn discard(signal: c_int) {
        let set = set_of(&[signal]);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the pointers refer to an initialised local set and time; a null pointer for
            // the signal's details is allowed.
            unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const at_once) };
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            let mut taken = 0;
            // SAFETY: the pointers refer to an initialised local set, whose signal is pending so
            // that the call returns at once, and to a local number.
            unsafe { libc::sigwait(&raw const set, &raw mut taken) };
        }
    }
}
