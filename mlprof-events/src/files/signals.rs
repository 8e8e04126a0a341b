//! Writes that send no signal to the program.

/// Runs `write` with `SIGXFSZ` and `SIGPIPE` blocked for this thread, and discards the signals that
/// `write` caused. Its system calls fail with an error in that case. The process's own handlers and
/// dispositions stay unchanged.
///
/// The function does not allocate and only makes system calls, so a signal handler may call it.
#[cfg(unix)]
pub fn without_signals<T>(write: impl FnOnce() -> T) -> T {
    let _blocked = unix::BlockedSignals::begin();
    write()
}

/// Runs `write`. These systems do not send such signals.
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

    /// Drop guard that blocks [`SIGNALS`] for this thread. On drop it discards the signals that
    /// became pending meanwhile.
    pub(super) struct BlockedSignals {
        before: sigset_t,
        /// For each signal, `true` if it was already pending. The program has yet to receive such a
        /// signal, so it is not discarded.
        pending: [bool; 2],
    }

    fn set_of(signals: &[c_int]) -> sigset_t {
        let mut set = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: the pointer refers to local memory for one `sigset_t`, which `sigemptyset`
        // initialises before the other calls use it. `SIGNALS` contains valid signal numbers.
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
            // SAFETY: the pointer refers to the set that `pthread_sigmask` filled in `begin`. The
            // third argument may be null.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
            }
        }
    }

    /// Removes one pending signal of this thread.
    fn discard(signal: c_int) {
        let set = set_of(&[signal]);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the pointers refer to an initialised local set and an initialised local
            // `timespec`. The second argument may be null.
            unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const at_once) };
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            let mut taken = 0;
            // SAFETY: the pointers refer to an initialised local set and a local number. The signal
            // of the set is pending and blocked, so the call returns at once.
            unsafe { libc::sigwait(&raw const set, &raw mut taken) };
        }
    }
}
