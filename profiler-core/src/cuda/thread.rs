//! Threads of ours, which live as long as the process.

use std::io;
use std::thread::{Builder, Thread};

use crate::allocation::uncounted;

/// Starts one. What it allocates is not counted as the program's, and signals are left to the
/// program's own threads.
pub(super) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<Thread> {
    let work = || {
        leave_signals_to_others();
        uncounted(work);
    };
    Ok(Builder::new().name(name.to_owned()).spawn(work)?.thread().clone())
}

fn leave_signals_to_others() {
    #[cfg(unix)]
    {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is filled before it is used; it is this thread's own mask that changes.
        unsafe {
            if libc::sigfillset(all.as_mut_ptr()) == 0 {
                libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), std::ptr::null_mut());
            }
        }
    }
}
