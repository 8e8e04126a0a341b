//! The allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};

use super::{count, switch};

/// An allocator that counts what goes through it, around the one that does the work.
///
/// ```
/// use mlprof_core::allocation::TrackingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();
///
/// fn main() {
///     let counting = mlprof_core::allocation::Counting::start();
///     let before = mlprof_core::allocation::thread_tallies();
///     let numbers = vec![0_u8; 1000];
///     let counted = mlprof_core::allocation::thread_tallies().since(&before);
///     assert_eq!((counted.allocated_bytes, counted.allocated_blocks), (1000, 1));
///     # drop(numbers);
/// }
/// ```
///
/// *Cost*: while nobody counts, one relaxed load for each allocation and each free.
///
/// *What is not seen*: memory that does not come from Rust's global allocator, such as that of C
/// and C++ libraries, of memory maps and of devices.
#[derive(Debug, Default, Clone, Copy)]
pub struct TrackingAllocator<A = System>(A);

impl TrackingAllocator {
    /// Around the system's allocator.
    pub const fn new() -> Self {
        Self(System)
    }
}

impl<A> TrackingAllocator<A> {
    /// Around another allocator.
    ///
    /// ```
    /// use mlprof_core::allocation::TrackingAllocator;
    /// use std::alloc::System; // or jemalloc's, mimalloc's, …
    ///
    /// #[global_allocator]
    /// static ALLOCATOR: TrackingAllocator<System> = TrackingAllocator::around(System);
    /// # fn main() {}
    /// ```
    pub const fn around(allocator: A) -> Self {
        Self(allocator)
    }
}

// SAFETY: every call is handed on unchanged, and what it answers is handed back; counting touches
// nothing of the memory, neither unwinds nor allocates through this allocator without end (see
// `count`).
unsafe impl<A: GlobalAlloc> GlobalAlloc for TrackingAllocator<A> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        let memory = unsafe { self.0.alloc(layout) };
        if switch::is_on() {
            count::allocated(memory.addr(), layout.size());
        }
        memory
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { self.0.alloc_zeroed(layout) };
        if switch::is_on() {
            count::allocated(memory.addr(), layout.size());
        }
        memory
    }

    #[inline(always)]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if switch::is_on() {
            // Before: from then on another thread may be given this address.
            count::freed(memory.addr(), layout.size());
        }
        // SAFETY: as above.
        unsafe { self.0.dealloc(memory, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !switch::is_on() {
            // SAFETY: as above.
            return unsafe { self.0.realloc(memory, layout, new_size) };
        }
        let old = memory.addr();
        count::freed(old, layout.size());
        // SAFETY: as above.
        let new = unsafe { self.0.realloc(memory, layout, new_size) };
        if new.is_null() {
            count::kept(old, layout.size());
        } else {
            count::allocated(new.addr(), new_size);
        }
        new
    }
}
