//! Host memory: a counting allocator and its counts.
//!
//! [`TrackingAllocator`] wraps a program's own allocator. It counts while the program holds a
//! [`Counting`]: per thread, exactly ([`thread_tallies`]), and for the process ([`live_bytes`],
//! [`peak_bytes`]). Memory that profilers themselves allocate is not counted.

mod allocator;
mod blocks;
mod count;
mod paths;
mod process;
mod profiler;
mod survivors;
mod switch;
mod thread;
mod tracker;

pub use allocator::TrackingAllocator;
#[doc(hidden)]
pub use count::LARGE_COPY;
pub use count::{allocated, copied, freed, kept};
pub use mlprof_events::Tallies;
#[doc(hidden)]
pub use process::{FLUSH_BLOCKS, FLUSH_BYTES};
pub use profiler::AllocationProfiler;
#[doc(hidden)]
pub use survivors::{KeptBlock, kept_by};
pub use switch::Counting;
pub(crate) use switch::listen;
#[doc(hidden)]
pub use tracker::LEAST_BYTES;

/// Returns the exact allocations and frees of the calling thread since it began, as far as
/// allocations were [counted](Counting). *Cost*: a thread-local read.
#[inline]
pub fn thread_tallies() -> Tallies {
    thread::with(thread::Thread::tallies)
}

/// Returns the live bytes of the process: allocated and not yet freed while allocations were
/// [counted](Counting). The value is negative if more bytes were freed that had been allocated
/// before counting. Up to [`FLUSH_BYTES`] of each other thread's latest changes are missing.
/// *Cost*: a thread-local read and a relaxed load.
#[inline]
pub fn live_bytes() -> i64 {
    thread::with(thread::Thread::live)
}

/// Returns the maximum of [`live_bytes`] since counting began, or since a stage of an
/// [`AllocationProfiler`] began. It is exact in a single-threaded program. Otherwise it may be off
/// by up to [`FLUSH_BYTES`] for each other thread.
pub fn peak_bytes() -> i64 {
    thread::with(thread::Thread::flush);
    process::peak()
}

/// Returns the allocations and frees of all threads while allocations were [counted](Counting). For
/// each other running thread, up to [`FLUSH_BYTES`] of live bytes and [`FLUSH_BLOCKS`] blocks are
/// missing.
pub fn process_tallies() -> Tallies {
    thread::with(thread::Thread::flush);
    process::totals()
}

/// Returns `true` if a [`TrackingAllocator`], or an allocator that calls [`allocated`], is the
/// process's allocator. Otherwise all counts stay 0.
pub fn is_installed() -> bool {
    switch::is_installed()
}
