//! The counting allocator.

use std::alloc::{GlobalAlloc, Layout, System};

use super::{count, switch};

/// An allocator that counts allocations and passes them on to another allocator.
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
/// *Cost*: one relaxed load per allocation and per free while counting is off.
///
/// *Limits*: memory that does not come from Rust's global allocator is not counted. Examples are
/// memory of C and C++ libraries, memory maps and device memory.
#[derive(Debug, Default, Clone, Copy)]
pub struct TrackingAllocator<A = System>(A);

impl TrackingAllocator {
    /// Wraps the system's allocator.
    pub const fn new() -> Self {
        Self(System)
    }
}

impl<A> TrackingAllocator<A> {
    /// Wraps another allocator.
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

// SAFETY: each call is passed unchanged to the inner allocator, and its result is returned
// unchanged. Counting does not access the memory and does not unwind. It does not allocate through
// this allocator without end (see `count`).
unsafe impl<A: GlobalAlloc> GlobalAlloc for TrackingAllocator<A> {
    #[inline(always)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc`, and the arguments are passed on
        // unchanged.
        let memory = unsafe { self.0.alloc(layout) };
        if switch::is_on() {
            count::allocated(memory.addr(), layout.size());
        }
        memory
    }

    #[inline(always)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `alloc_zeroed`, and the arguments are passed
        // on unchanged.
        let memory = unsafe { self.0.alloc_zeroed(layout) };
        if switch::is_on() {
            count::allocated(memory.addr(), layout.size());
        }
        memory
    }

    #[inline(always)]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if switch::is_on() {
            // The count comes first, because after the free another thread may get this address.
            count::freed(memory.addr(), layout.size());
        }
        // SAFETY: the caller upholds the contract of `dealloc`, and `alloc` of the same inner
        // allocator returned the memory.
        unsafe { self.0.dealloc(memory, layout) }
    }

    #[inline(always)]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if !switch::is_on() {
            // SAFETY: the caller upholds the contract of `realloc`, and the arguments are passed on
            // unchanged.
            return unsafe { self.0.realloc(memory, layout, new_size) };
        }
        let old = memory.addr();
        count::freed(old, layout.size());
        // SAFETY: the caller upholds the contract of `realloc`, and the arguments are passed on
        // unchanged.
        let new = unsafe { self.0.realloc(memory, layout, new_size) };
        if new.is_null() {
            count::kept(old, layout.size());
        } else {
            count::allocated(new.addr(), new_size);
        }
        new
    }
}
