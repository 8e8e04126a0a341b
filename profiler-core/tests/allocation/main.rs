//! The tracking allocator as the allocator of this program: what it counts, to the byte.

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

/// The test harness is none of the program that is measured: its first thread starts tests and keeps
/// lists of them (from the 17th on of 4,864 bytes each) whenever it comes to that.
struct BesideTheHarness(TrackingAllocator);

/// Whether this is the harness's first thread, which is the process's.
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
    // SAFETY: only asks.
    unsafe { libc::getpid() == libc::gettid() }
}

#[cfg(not(target_os = "linux"))]
fn is_first_thread() -> bool {
    false
}

// SAFETY: every call is handed on unchanged, to one of two allocators that give out the same memory:
// the tracking one adds nothing to the system's.
unsafe impl GlobalAlloc for BesideTheHarness {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on, here and below.
        unsafe { if is_the_harness() { System.alloc(layout) } else { self.0.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            match is_the_harness() {
                true => System.alloc_zeroed(layout),
                false => self.0.alloc_zeroed(layout),
            }
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe {
            match is_the_harness() {
                true => System.dealloc(memory, layout),
                false => self.0.dealloc(memory, layout),
            }
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            match is_the_harness() {
                true => System.realloc(memory, layout, new_size),
                false => self.0.realloc(memory, layout, new_size),
            }
        }
    }
}

/// One test after the other: the harness's threads allocate before and after the test that they run.
#[cfg(target_os = "linux")]
extern "C" fn one_at_a_time() {
    // SAFETY: C strings, before `main`, when there is no other thread.
    unsafe { libc::setenv(c"RUST_TEST_THREADS".as_ptr(), c"1".as_ptr(), 0) };
}

// SAFETY: a function of the C calling convention in the list of those that run before `main`.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static ONE_AT_A_TIME: extern "C" fn() = one_at_a_time;

/// There is one active profiler, one that knows who allocated what, and one count of the process's
/// live bytes: all tests take turns, also where the harness runs several at once.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
