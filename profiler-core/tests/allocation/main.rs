//! Tests with the tracking allocator as the program's allocator. Counts must be exact to the byte.

mod actions;
mod events;
mod origins;
mod panics;
mod tallies;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mlprof_core::allocation::TrackingAllocator;

#[global_allocator]
static ALLOCATOR: BesideTheHarness = BesideTheHarness(TrackingAllocator::new());

/// Allocator that leaves the test harness out of the counts. The harness's first thread starts
/// tests at any time and keeps lists of them (4,864 bytes each from the 17th on).
struct BesideTheHarness(TrackingAllocator);

/// Returns `true` on the harness's first thread, which is the main thread of the process.
fn is_the_harness() -> bool {
    thread_local!(static IS_FIRST: Cell<Option<bool>> = const { Cell::new(None) });
    IS_FIRST.get().unwrap_or_else(|| {
        let is_first = is_first_thread();
        IS_FIRST.set(Some(is_first));
        is_first
    })
}

#[cfg(target_os = "linux")]
fn is_first_thread() -> bool {
    // SAFETY: both functions have no preconditions.
    unsafe { libc::getpid() == libc::gettid() }
}

#[cfg(not(target_os = "linux"))]
fn is_first_thread() -> bool {
    false
}

// SAFETY: each call is passed unchanged to one of two allocators. Both use the system's memory in
// the same way, because the tracking one adds only counts.
unsafe impl GlobalAlloc for BesideTheHarness {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { if is_the_harness() { System.alloc(layout) } else { self.0.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe {
            match is_the_harness() {
                true => System.alloc_zeroed(layout),
                false => self.0.alloc_zeroed(layout),
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe {
            match is_the_harness() {
                true => System.dealloc(memory, layout),
                false => self.0.dealloc(memory, layout),
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe {
            match is_the_harness() {
                true => System.realloc(memory, layout, new_size),
                false => self.0.realloc(memory, layout, new_size),
            }
        }
    }
}

/// Makes the harness run one test at a time, because its threads allocate before and after their
/// test.
#[cfg(target_os = "linux")]
extern "C" fn one_at_a_time() {
    // SAFETY: both strings are C strings, and before `main` no other thread exists.
    unsafe { libc::setenv(c"RUST_TEST_THREADS".as_ptr(), c"1".as_ptr(), 0) };
}

// SAFETY: `.init_array` contains pointers to functions with the C calling convention, as this one.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static ONE_AT_A_TIME: extern "C" fn() = one_at_a_time;

/// Serialises the tests, even if the harness runs several at once. The process has one active
/// profiler, one lease for origins, and one count of live bytes.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
