// What is put into the root of a crate whose allocator is tracked. It compiles in every edition and
// without std; only the part about the system's allocator, which is another file, needs std.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, clippy::restriction)]
// Not all that are allowed by default; what is said of the rest is not handed on.
#[allow(missing_debug_implementations, missing_docs, single_use_lifetimes, trivial_casts)]
#[allow(trivial_numeric_casts, unreachable_pub, unused_lifetimes, unused_qualifications)]
#[allow(unused_results)]
#[doc(hidden)]
mod __mlprof_allocator {
    // In the first edition `::core` is a module of the crate.
    extern crate core as __mlprof_core;

    unsafe extern "C" {
        static MLPROF_WANTED: __mlprof_core::sync::atomic::AtomicU32;
        fn mlprof_allocated(address: usize, bytes: usize);
        fn mlprof_freed(address: usize, bytes: usize);
        fn mlprof_kept(address: usize, bytes: usize);
    }

    // An allocator that tells of what it does, around the one that does it.
    pub struct Tracking<A>(A);

    impl<A> Tracking<A> {
        pub const fn around(allocator: A) -> Self {
            Tracking(allocator)
        }
    }

    // Programs may call methods of their own allocator.
    impl<A> __mlprof_core::ops::Deref for Tracking<A> {
        type Target = A;
        #[inline(always)]
        fn deref(&self) -> &A {
            &self.0
        }
    }

    #[inline(always)]
    fn is_wanted() -> bool {
        // SAFETY: the runtime library defines it, and never writes to it but atomically.
        unsafe { MLPROF_WANTED.load(__mlprof_core::sync::atomic::Ordering::Relaxed) & 512 != 0 }
    }

    // SAFETY: every call is handed on unchanged, and what it answers is handed back; the runtime is
    // told addresses as numbers, and neither unwinds nor allocates through this allocator.
    unsafe impl<A: __mlprof_core::alloc::GlobalAlloc> __mlprof_core::alloc::GlobalAlloc for Tracking<A> {
        #[inline(always)]
        unsafe fn alloc(&self, layout: __mlprof_core::alloc::Layout) -> *mut u8 {
            unsafe {
                let memory = self.0.alloc(layout);
                if is_wanted() {
                    mlprof_allocated(memory as usize, layout.size());
                }
                memory
            }
        }

        #[inline(always)]
        unsafe fn alloc_zeroed(&self, layout: __mlprof_core::alloc::Layout) -> *mut u8 {
            unsafe {
                let memory = self.0.alloc_zeroed(layout);
                if is_wanted() {
                    mlprof_allocated(memory as usize, layout.size());
                }
                memory
            }
        }

        #[inline(always)]
        unsafe fn dealloc(&self, memory: *mut u8, layout: __mlprof_core::alloc::Layout) {
            unsafe {
                if is_wanted() {
                    mlprof_freed(memory as usize, layout.size());
                }
                self.0.dealloc(memory, layout)
            }
        }

        #[inline(always)]
        unsafe fn realloc(
            &self,
            memory: *mut u8,
            layout: __mlprof_core::alloc::Layout,
            new_size: usize,
        ) -> *mut u8 {
            unsafe {
                if !is_wanted() {
                    return self.0.realloc(memory, layout, new_size);
                }
                let old = memory as usize;
                mlprof_freed(old, layout.size());
                let new = self.0.realloc(memory, layout, new_size);
                if new.is_null() {
                    mlprof_kept(old, layout.size());
                } else {
                    mlprof_allocated(new as usize, new_size);
                }
                new
            }
        }
    }
}
