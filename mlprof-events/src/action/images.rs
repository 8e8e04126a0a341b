//! What of memory is part of a file: the program's own, or one of its libraries.

/// Whether a text stands in such a file, where it stays what it is. Libraries that were loaded a moment
/// ago may not be known yet.
pub(super) fn hold(text: &str) -> bool {
    segments::hold(text.as_ptr() as usize)
}

#[cfg(all(unix, any(miri, not(any(target_os = "linux", target_os = "android")))))]
mod segments {
    pub(super) fn hold(address: usize) -> bool {
        let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: room for the answer; the address is only compared.
        !cfg!(miri) && unsafe { libc::dladdr(address as *const _, found.as_mut_ptr()) } != 0
    }
}

#[cfg(windows)]
mod segments {
    use std::ffi::c_void;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetModuleHandleExW(flags: u32, name: *const u16, module: *mut *mut c_void) -> i32;
    }

    /// The name is an address, and the file is not held on to.
    const BY_ADDRESS: u32 = 0x4;
    const UNCHANGED: u32 = 0x2;

    pub(super) fn hold(address: usize) -> bool {
        let mut found = std::ptr::null_mut();
        // SAFETY: room for the answer; the address is only compared.
        unsafe {
            GetModuleHandleExW(BY_ADDRESS | UNCHANGED, address as *const u16, &mut found) != 0
        }
    }
}

#[cfg(not(any(unix, windows)))]
mod segments {
    /// Nothing is known of it: a text that is leaked has to stay so.
    pub(super) fn hold(_address: usize) -> bool {
        true
    }
}

#[cfg(all(any(target_os = "linux", target_os = "android"), not(miri)))]
mod segments {
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{PoisonError, RwLock};

    use crate::action::interning;
    use crate::forking::apart_from_forks;

    /// The parts of files that nobody may write to, as they were when somebody last looked.
    static KNOWN: RwLock<Vec<Range<usize>>> = RwLock::new(Vec::new());

    pub(super) fn hold(address: usize) -> bool {
        static MISSES: AtomicU64 = AtomicU64::new(0);
        let is_known = interning(|| {
            let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
            known.iter().any(|segment| segment.contains(&address))
        });
        if is_known != Some(false) {
            return is_known == Some(true);
        }
        // Ever less often: looking takes a lock of the system's, and most that is not known is leaked.
        if (MISSES.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
            // A forked child would find the system's lock taken.
            let mut found = crate::uncounted(|| apart_from_forks(look));
            let is_new = found.iter().any(|segment| segment.contains(&address));
            interning(|| {
                std::mem::swap(
                    &mut found,
                    &mut *KNOWN.write().unwrap_or_else(PoisonError::into_inner),
                );
            });
            return is_new; // the earlier list goes outside of the lock
        }
        false
    }

    fn look() -> Vec<Range<usize>> {
        let mut segments: Vec<Range<usize>> = Vec::new();
        // SAFETY: the function is as the system wants it, and its data is the list.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut segments).cast()) };
        segments
    }

    /// `PF_W` of ELF's headers, which libc does not have for Android.
    const WRITABLE: u32 = 2;

    /// Adds the segments of one file.
    unsafe extern "C" fn add(
        file: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        segments: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: the system's description of the file, and the list that `look` gave.
        let (file, segments) = unsafe { (&*file, &mut *segments.cast::<Vec<Range<usize>>>()) };
        if file.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: that many headers stand there while the system describes the file.
        let headers =
            unsafe { std::slice::from_raw_parts(file.dlpi_phdr, usize::from(file.dlpi_phnum)) };
        for header in headers {
            if header.p_type == libc::PT_LOAD && header.p_flags & WRITABLE == 0 {
                let start = (file.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
                segments.push(start..start.saturating_add(header.p_memsz as usize));
            }
        }
        0
    }
}

#[cfg(all(test, any(unix, windows), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn literals_are_in_files_and_what_is_leaked_is_not() {
        assert!(hold("a literal"));
        assert!(hold(crate::names::BACKWARD));
        let leaked: &'static str = Box::leak(String::from("leaked").into_boxed_str());
        assert!(!hold(leaked));
        assert!(hold("another literal"), "after that, too");
    }
}
