//! What of a thread's work is the profiler's own, and not the program's.

use std::cell::Cell;

thread_local! {
    /// Above 0 while the profiler itself is at work. Without a destructor, so that an allocator may ask
    /// before `main` and while the thread is torn down.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Whether what is allocated now is the profiler's own.
#[inline(always)]
pub fn is_uncounted() -> bool {
    DEPTH.with(|depth| depth.get() > 0)
}

/// Calls `work`; what it allocates and frees on this thread is the profiler's own and not counted,
/// but for blocks of the program's that it frees.
pub fn uncounted<R>(work: impl FnOnce() -> R) -> R {
    /// Counts again at the end, also of a panic.
    struct Again;
    impl Drop for Again {
        fn drop(&mut self) {
            DEPTH.with(|depth| depth.set(depth.get() - 1));
        }
    }
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let _again = Again;
    work()
}
