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

/// Returns where the calling thread's `errno` is. Each C library has a function of its own for that.
fn errno() -> *mut c_int {
    #[cfg(any(target_os = "solaris", target_os = "illumos"))]
    use libc::___errno as location;
    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    use libc::__errno as location;
    #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
    use libc::__error as location;
    // glibc, musl, uClibc, DragonFly, Emscripten.
    #[cfg(not(any(
        target_vendor = "apple",
        target_os = "freebsd",
        target_os = "android",
        target_os = "netbsd",
        target_os = "openbsd",
        target_os = "solaris",
        target_os = "illumos",
    )))]
    use libc::__errno_location as location;
    // SAFETY: the function has no precondition; every thread has an `errno`.
    unsafe { location() }
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
