// Text for the root of a program, to report its large copies. It defines `memcpy` and `memmove`,
// which the linker prefers to those of the C library.

#[cfg(all(target_os = "linux", target_env = "gnu", not(target_feature = "crt-static")))]
#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, clippy::restriction)]
// The group `warnings` does not cover lints that are allowed by default. These are allowed
// explicitly, as far as they apply.
#[allow(missing_debug_implementations, missing_docs, single_use_lifetimes, trivial_casts)]
#[allow(trivial_numeric_casts, unreachable_pub, unused_lifetimes, unused_qualifications)]
#[allow(unused_results)]
#[doc(hidden)]
mod __mlprof_copies {
    extern crate core as __mlprof_core;

    type Copy = unsafe extern "C" fn(*mut u8, *const u8, usize) -> *mut u8;

    unsafe extern "C" {
        static MLPROF_WANTED: __mlprof_core::sync::atomic::AtomicU32;
        fn mlprof_copied(bytes: usize);
        fn dlsym(library: *mut u8, name: *const u8) -> *mut u8;
    }

    // Functions of the C library; null until this program is initialised.
    static MEMCPY: __mlprof_core::sync::atomic::AtomicPtr<u8> =
        __mlprof_core::sync::atomic::AtomicPtr::new(0 as *mut u8);
    static MEMMOVE: __mlprof_core::sync::atomic::AtomicPtr<u8> =
        __mlprof_core::sync::atomic::AtomicPtr::new(0 as *mut u8);

    extern "C" fn find() {
        // SAFETY: the names are NUL-terminated. The value -1 is `RTLD_NEXT`, which searches the
        // libraries after this program.
        unsafe {
            let next = -1_isize as *mut u8;
            MEMMOVE.store(
                dlsym(next, b"memmove\0".as_ptr()),
                __mlprof_core::sync::atomic::Ordering::Relaxed,
            );
            MEMCPY.store(
                dlsym(next, b"memcpy\0".as_ptr()),
                __mlprof_core::sync::atomic::Ordering::Relaxed,
            );
        }
    }

    #[used]
    #[unsafe(link_section = ".init_array")]
    static FIND: extern "C" fn() = find;

    // Without this static, link-time optimisation may remove the functions as unused.
    #[used]
    static KEEP: [Copy; 2] = [memcpy, memmove];

    // Before initialisation, code may only access this program's own statics, because libraries are
    // still being loaded.
    #[inline(always)]
    unsafe fn copy(
        real: &__mlprof_core::sync::atomic::AtomicPtr<u8>,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
    ) -> *mut u8 {
        unsafe {
            let real = real.load(__mlprof_core::sync::atomic::Ordering::Relaxed);
            if real as usize == 0 {
                return by_bytes(to, from, bytes);
            }
            if bytes >= 65536 {
                tell(bytes);
            }
            __mlprof_core::mem::transmute::<*mut u8, Copy>(real)(to, from, bytes)
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn tell(bytes: usize) {
        unsafe {
            if MLPROF_WANTED.load(__mlprof_core::sync::atomic::Ordering::Relaxed) & 512 != 0 {
                mlprof_copied(bytes);
            }
        }
    }

    // The accesses are volatile, because the compiler could otherwise replace the loop by a call of
    // memcpy.
    #[cold]
    #[inline(never)]
    unsafe fn by_bytes(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        unsafe {
            let is_forwards = (to as usize) <= (from as usize);
            let mut done = 0;
            while done < bytes {
                let index = if is_forwards { done } else { bytes - 1 - done };
                to.add(index).write_volatile(from.add(index).read_volatile());
                done += 1;
            }
            to
        }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        unsafe { copy(&MEMCPY, to, from, bytes) }
    }

    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
        unsafe { copy(&MEMMOVE, to, from, bytes) }
    }
}
