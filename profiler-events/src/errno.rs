//! The system's last error of a thread, which nobody expects a signal handler to change.

use libc::c_int;

/// Calls `work`, after which `errno` is what it was.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let errno = errno();
    // SAFETY: every thread has an `errno`.
    let error = unsafe { *errno };
    let result = work();
    // SAFETY: as above.
    unsafe { *errno = error };
    result
}

#[cfg(any(target_os = "macos", target_os = "ios", target_os = "freebsd"))]
fn errno() -> *mut c_int {
    // SAFETY: every thread has one.
    unsafe { libc::__error() }
}

#[cfg(not(any(target_os = "macos", target_os = "ios", target_os = "freebsd")))]
fn errno() -> *mut c_int {
    // SAFETY: every thread has one.
    unsafe { libc::__errno_location() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_error_on_the_way_is_forgotten() {
        // SAFETY: every thread has one.
        let set = |error| unsafe { *errno() = error };
        set(libc::EAGAIN);
        keeping_errno(|| set(libc::ENOMEM));
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    }
}
