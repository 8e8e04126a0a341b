//! Marks a thread's allocations as the profiler's own instead of the program's.

use std::cell::Cell;

thread_local! {
    /// Nesting depth of the profiler's own work on this thread. It has no destructor, so an
    /// allocator may read it before `main` and during thread shutdown.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Returns `true` if allocations of this thread currently count as the profiler's own.
#[inline(always)]
pub fn is_uncounted() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

/// Runs `work` and marks its allocations and deallocations on this thread as the profiler's own.
/// Freeing blocks of the program still counts.
pub fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    /// Drop guard that resumes counting, even after a panic.
    struct DecrementGuard;
    impl Drop for DecrementGuard {
        fn drop(&mut self) {
            DEPTH.with(|depth| depth.set(depth.get() - 1));
        }
    }
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let _again = DecrementGuard;
    work()
}
