//! Tests of the profilers' memory per name, counted in the allocator. It must be a few hundred
//! bytes for ten names or ten thousand, side by side or nested.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use mlprof_core::{Action, AdvancedProfiler, Profiler, ProfilerExt, SimpleProfiler};

/// System allocator that counts the live bytes of each thread.
struct Counting;

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
}

fn count(bytes: i64) {
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call is passed unchanged to the system's allocator. Counting uses a thread-local
// that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Maximum number of bytes per name. It excludes the 80 bytes for a far duration, as on a busy
/// machine, because those do not come from the allocator.
const MOST: i64 = 400;

fn bytes_per_name(profiler: &dyn Profiler, names: &[Action], are_nested: bool) -> i64 {
    let around: Action = "around".into();
    drop(profiler.profile(around));
    let before = HELD.get();
    for _ in 0..3 {
        let _around = profiler.profile(around);
        for name in names {
            profiler.start(*name);
            if !are_nested {
                profiler.stop(*name).expect("it was started");
            }
        }
        if are_nested {
            for name in names.iter().rev() {
                profiler.stop(*name).expect("it was started");
            }
        }
    }
    (HELD.get() - before) / names.len() as i64
}

#[test]
#[cfg_attr(not(unix), ignore = "pages for durations unlike all others are the allocator's there")]
fn a_name_takes_a_few_hundred_bytes_however_many_there_are() {
    let names: Vec<Action> = (0..10_000).map(|name| Action::new(&format!("n{name}"))).collect();
    for count in [300, 10_000] {
        for are_nested in [false, true] {
            let names = &names[names.len() - count..];
            let simple = bytes_per_name(&SimpleProfiler::new(), names, are_nested);
            let advanced = bytes_per_name(&AdvancedProfiler::new(), names, are_nested);
            let case = format!("{count} names, nested: {are_nested}");
            assert!((1..=MOST).contains(&advanced), "Advanced, {case}: {advanced} bytes");
            assert!((1..=MOST).contains(&simple), "Simple, {case}: {simple} bytes");
        }
    }
}
