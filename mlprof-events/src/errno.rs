//! Access to the thread's `errno`, which a signal handler must not change.

use libc::c_int;

/// Runs `work` and then restores the previous value of `errno`.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let errno = errno();
    // SAFETY: `errno` returned a pointer to the calling thread's `errno`, which is valid, aligned
    // and initialised for the life of the thread. Only this thread accesses it.
    let error = unsafe { *errno };
    let result = work();
    // SAFETY: `errno` still points to the calling thread's `errno`, because `work` ran on the same
    // thread.
    unsafe { *errno = error };
    result
}

/// Returns a pointer to the calling thread's `errno`. Each C library has its own function for this.
fn errno() -> *mut c_int {
    #[cfg(any(target_os = "solaris", target_os = "illumos"))]
    use libc::___errno as location;
    #[cfg(any(target_os = "android", target_os = "netbsd", target_os = "openbsd"))]
    use libc::__errno as location;
    #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
    use libc::__error as location;
    // glibc, musl, uClibc, DragonFly and Emscripten use this name.
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
    // SAFETY: the function has no preconditions, and each C library above declares it with this
    // signature.
    unsafe { location() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_error_on_the_way_is_forgotten() {
        // SAFETY: the pointer refers to this thread's `errno`, which is valid as long as the thread
        // runs.
        let set = |error| unsafe { *errno() = error };
        set(libc::EAGAIN);
        keeping_errno(|| set(libc::ENOMEM));
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    }
}
