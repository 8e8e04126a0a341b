//! Processing of each allocation and free while counting is on.
//!
//! Other allocators than [`TrackingAllocator`](super::TrackingAllocator) may also call these
//! functions. None of them allocates through the calling allocator, waits for another thread, or
//! unwinds. They may be called on any thread at any time, also before `main` and while the thread
//! is torn down.

use std::sync::atomic::{AtomicBool, Ordering};

use super::thread::Thread;
use super::{survivors, switch, thread, tracker};
use crate::hook::{self, MemoryChange, MemoryDevice};
use crate::output::say;
use mlprof_events::panics::contain;
use mlprof_events::uncounted;

/// Minimum size in bytes of copies that are counted.
pub const LARGE_COPY: usize = 64 << 10;

/// Counts an allocated block. Does nothing if `address` is 0.
///
/// *Cost*: about 5 ns. It is more for blocks of at least 1 KiB if a profiler tracks their origin.
#[inline(never)]
pub fn allocated(address: usize, bytes: usize) {
    let state = switch::get();
    if switch::is_first(state) {
        switch::set_installed();
    }
    if address == 0 || !switch::is_counting(state) {
        return;
    }
    thread::with(|thread| {
        if thread.is_uncounted() {
            return;
        }
        thread.allocate(bytes as u64);
        if switch::is_following(state) {
            follow(thread, state, address, bytes);
        }
    });
}

/// Counts a block that is about to be freed. *Cost*: like [`allocated`].
#[inline(never)]
pub fn freed(address: usize, bytes: usize) {
    let state = switch::get();
    if address == 0 || !switch::is_counting(state) {
        return;
    }
    thread::with(|thread| {
        let is_uncounted = thread.is_uncounted();
        // A block of the program's counts even if the profiler frees it.
        let is_known = state & switch::BLOCKS != 0 && tracker::freed(address, bytes);
        if is_uncounted && !is_known {
            return;
        }
        thread.free(bytes as u64);
        if state & switch::KEPT != 0 {
            survivors::freed(address);
        }
        if state & switch::EVENTS != 0 && !is_uncounted {
            tell(thread, address, bytes, -1);
        }
    });
}

/// Reverts [`freed`] for a block that could not be resized and stays as it was.
#[cold]
#[inline(never)]
pub fn kept(address: usize, bytes: usize) {
    let state = switch::get();
    if address == 0 || !switch::is_counting(state) {
        return;
    }
    thread::with(|thread| {
        if thread.is_uncounted() {
            return;
        }
        thread.keep(bytes as u64);
        if switch::is_following(state) {
            follow(thread, state, address, bytes);
        }
    });
}

/// Counts a copy made by the calling thread, for the open call path. It counts only if an
/// [`AllocationProfiler`](super::AllocationProfiler) requests it and the size is at least
/// [`LARGE_COPY`].
#[inline(never)]
pub fn copied(bytes: usize) {
    if bytes < LARGE_COPY || switch::get() & switch::BLOCKS == 0 {
        return;
    }
    thread::with(|thread| {
        if !thread.is_uncounted() {
            tracker::copied(bytes as u64, thread.path());
        }
    });
}

#[inline(never)]
fn follow(thread: &Thread, state: u32, address: usize, bytes: usize) {
    if state & switch::BLOCKS != 0 {
        tracker::allocated(address, bytes, thread.path(), || thread.live());
    }
    if state & switch::KEPT != 0 {
        survivors::allocated(address, bytes);
    }
    if state & switch::EVENTS != 0 {
        tell(thread, address, bytes, 1);
    }
}

/// Reports the change to the active profiler. It contains panics, because an allocator must not
/// unwind.
fn tell(thread: &Thread, address: usize, bytes: usize, sign: i64) {
    if bytes < tracker::LEAST_BYTES {
        return;
    }
    let change = MemoryChange {
        address: address as u64,
        bytes: sign.saturating_mul(i64::try_from(bytes).unwrap_or(i64::MAX)),
        total_allocated: u64::try_from(thread.live()).unwrap_or(0),
        total_reserved: 0,
        device: MemoryDevice::Cpu,
    };
    if let Err(message) = contain(|| hook::memory(&change)) {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            uncounted(|| {
                say(format_args!(
                    "mlprof: cannot record an allocation: the profiler panicked: {message} \
                     (reported once)"
                ));
            });
        }
    }
}
