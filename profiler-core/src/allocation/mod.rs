//! Memory of the host: an allocator that counts, and what it counted.
//!
//! [`TrackingAllocator`] goes around a program's own allocator. It counts while somebody holds a
//! [`Counting`]: per thread, exactly ([`thread_tallies`]), and for the process ([`live_bytes`],
//! [`peak_bytes`]). What profilers themselves allocate is not counted.

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

/// What the calling thread has allocated and freed while allocations were [counted](Counting), since
/// it began. Exact. *Cost*: a thread-local read.
#[inline]
pub fn thread_tallies() -> Tallies {
    thread::with(thread::Thread::tallies)
}

/// Bytes that were allocated and not freed in the whole process while allocations were
/// [counted](Counting); below 0 if more was freed that was allocated before. What the other threads
/// counted last is missing: up to [`FLUSH_BYTES`] each. *Cost*: a thread-local read and a relaxed
/// load.
#[inline]
pub fn live_bytes() -> i64 {
    thread::with(thread::Thread::live)
}

/// The most that [`live_bytes`] has been since counting began, or since a stage of an
/// [`AllocationProfiler`] did: exact in a program of one thread, else off by up to [`FLUSH_BYTES`] for
/// every other one.
pub fn peak_bytes() -> i64 {
    thread::with(thread::Thread::flush);
    process::peak()
}

/// What all threads have allocated and freed while allocations were [counted](Counting). What the
/// other running threads counted last is missing: up to [`FLUSH_BYTES`] of live bytes and
/// [`FLUSH_BLOCKS`] blocks each.
pub fn process_tallies() -> Tallies {
    thread::with(thread::Thread::flush);
    process::totals()
}

/// Whether a [`TrackingAllocator`], or one that calls [`allocated`], is this process's allocator. If
/// not, nothing is counted.
pub fn is_installed() -> bool {
    switch::is_installed()
}
