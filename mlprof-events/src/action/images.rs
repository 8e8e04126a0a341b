//! Memory ranges that are mapped from a file: the executable or one of its shared libraries.

/// Returns `true` if `text` lies in such a range, where its bytes never change. The result may be
/// `false` for a library that was loaded a moment ago.
pub(super) fn hold(text: &str) -> bool {
    segments::hold(text.as_ptr() as usize)
}

#[cfg(all(unix, any(miri, not(any(target_os = "linux", target_os = "android")))))]
mod segments {
    pub(super) fn hold(address: usize) -> bool {
        let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: `found` has room for one `Dl_info`. `dladdr` only compares the address with the
        // loaded ranges and never reads through it.
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

    /// `GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS`: the name parameter is an address in the module.
    const BY_ADDRESS: u32 = 0x4;
    const UNCHANGED: u32 = 0x2;

    pub(super) fn hold(address: usize) -> bool {
        let mut found = std::ptr::null_mut();
        // SAFETY: `found` is a valid place for the module handle. With these flags the function
        // only compares the address with the loaded modules and never reads through it.
        unsafe {
            GetModuleHandleExW(BY_ADDRESS | UNCHANGED, address as *const u16, &mut found) != 0
        }
    }
}

#[cfg(not(any(unix, windows)))]
mod segments {
    /// Returns `true`, because this platform has no list of mapped files. Leaked texts must
    /// therefore never be freed there.
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

    /// Read-only address ranges of the loaded files, as of the last look-up.
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
        // The check runs ever less often. It takes a lock of the dynamic linker, and most unknown
        // addresses belong to leaked texts.
        if (MISSES.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two() {
            // The loader's lock must not be held across a fork, or a forked child would find it
            // taken.
            let mut found = crate::uncounted(|| apart_from_forks(look));
            let is_new = found.iter().any(|segment| segment.contains(&address));
            interning(|| {
                std::mem::swap(
                    &mut found,
                    &mut *KNOWN.write().unwrap_or_else(PoisonError::into_inner),
                );
            });
            return is_new; // the old list is dropped here, without the lock
        }
        false
    }

    fn look() -> Vec<Range<usize>> {
        let mut segments: Vec<Range<usize>> = Vec::new();
        // SAFETY: `add` has the signature that `dl_iterate_phdr` expects. Its data pointer refers
        // to `segments`, which outlives the call and is not used elsewhere during it.
        unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut segments).cast()) };
        segments
    }

    /// `PF_W` of the ELF program headers, which `libc` does not define for Android.
    const WRITABLE: u32 = 2;

    /// Adds the read-only segments of one loaded file to the list.
    unsafe extern "C" fn add(
        file: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        segments: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `dl_iterate_phdr` passes a valid description of the file. `segments` is the
        // exclusive pointer to the list that `look` passed in.
        let (file, segments) = unsafe { (&*file, &mut *segments.cast::<Vec<Range<usize>>>()) };
        if file.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: the pointer is not null, and `dlpi_phnum` headers stay readable for the duration
        // of the callback.
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
