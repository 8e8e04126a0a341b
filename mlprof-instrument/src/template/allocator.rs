// Text for the root of a crate whose allocator is tracked. It compiles in every edition and without
// std. Only the text for the system's allocator, in a separate file, needs std.

#[allow(warnings, unsafe_code, clippy::all, clippy::pedantic, clippy::restriction)]
// The group `warnings` does not cover lints that are allowed by default. These are allowed
// explicitly, as far as they apply.
#[allow(missing_debug_implementations, missing_docs, single_use_lifetimes, trivial_casts)]
#[allow(trivial_numeric_casts, unreachable_pub, unused_lifetimes, unused_qualifications)]
#[allow(unused_results)]
#[doc(hidden)]
mod __mlprof_allocator {
    // In the 2015 edition, `::core` would be a module of the crate.
    extern crate core as __mlprof_core;

    unsafe extern "C" {
        static MLPROF_WANTED: __mlprof_core::sync::atomic::AtomicU32;
        fn mlprof_allocated(address: usize, bytes: usize);
        fn mlprof_freed(address: usize, bytes: usize);
        fn mlprof_kept(address: usize, bytes: usize);
    }

    // Allocator that reports its calls and forwards them to another allocator.
    pub struct Tracking<A>(A);

    impl<A> Tracking<A> {
        pub const fn around(allocator: A) -> Self {
            Tracking(allocator)
        }
    }

    // Programs may call methods of their own allocator type.
    impl<A> __mlprof_core::ops::Deref for Tracking<A> {
        type Target = A;
        #[inline(always)]
        fn deref(&self) -> &A {
            &self.0
        }
    }

    #[inline(always)]
    fn is_wanted() -> bool {
        // SAFETY: the runtime library defines this static with the same type, and only writes it
        // atomically.
        unsafe { MLPROF_WANTED.load(__mlprof_core::sync::atomic::Ordering::Relaxed) & 512 != 0 }
    }

    // SAFETY: every call is forwarded unchanged and its result is returned, so the inner allocator
    // fulfils the contract. The runtime receives addresses as integers. It neither unwinds nor
    // allocates through this allocator.
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
