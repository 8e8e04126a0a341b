//! Compares mlprof's counts with those of dhat for the same run: total bytes and blocks, live
//! memory, and the peak.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Barrier};

use mlprof_core::allocation::{
    self, Counting, FLUSH_BYTES, Tallies, live_bytes, peak_bytes, process_tallies,
};

/// Allocator that reports to dhat and also calls the functions for third-party allocators.
/// Allocations of dhat itself are not counted by either.
struct Both;

thread_local! {
    static IN_DHAT: Cell<bool> = const { Cell::new(false) };
}

/// Runs `call`, which calls dhat. The flag is `true` if the program makes the call and not dhat
/// itself.
fn in_dhat<T>(call: impl FnOnce() -> T) -> (T, bool) {
    let was_in = IN_DHAT.replace(true);
    let result = call();
    IN_DHAT.set(was_in);
    (result, !was_in)
}

// SAFETY: each call is passed to dhat's allocator, which passes it to the system's.
unsafe impl GlobalAlloc for Both {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        let (memory, is_programs) = in_dhat(|| unsafe { dhat::Alloc.alloc(layout) });
        if is_programs {
            allocation::allocated(memory.addr(), layout.size());
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !IN_DHAT.get() {
            allocation::freed(memory.addr(), layout.size());
        }
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        in_dhat(|| unsafe { dhat::Alloc.dealloc(memory, layout) });
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let old = memory.addr();
        if !IN_DHAT.get() {
            allocation::freed(old, layout.size());
        }
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        let (new, is_programs) =
            in_dhat(|| unsafe { dhat::Alloc.realloc(memory, layout, new_size) });
        if is_programs {
            allocation::allocated(new.addr(), new_size);
        }
        new
    }
}

#[global_allocator]
static ALLOCATOR: Both = Both;

/// Allocates, resizes and frees data of many sizes deterministically, and keeps some of it.
fn work(seed: u64) -> (Vec<String>, BTreeMap<u64, Vec<u8>>) {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state >> 33
    };
    let mut strings: Vec<String> = Vec::new();
    let mut tree = BTreeMap::new();
    let mut map: HashMap<u64, Box<[u64]>, std::hash::BuildHasherDefault<std::hash::DefaultHasher>> =
        HashMap::default();
    for round in 0..2_000 {
        strings.push("x".repeat((next() % 300) as usize));
        tree.insert(next() % 500, vec![1; (next() % 5_000) as usize]);
        map.insert(next() % 100, vec![round; (next() % 2_000) as usize].into_boxed_slice());
        if round % 7 == 0 {
            strings.truncate(strings.len() / 2);
            strings.shrink_to_fit();
        }
        if round % 100 == 99 {
            drop(vec![0_u8; 300_000 + (next() % 1_000) as usize]);
        }
    }
    (strings, tree)
}

/// Compares both counts. Returns the two peaks, which are compared separately.
fn compare(before: &Tallies, live_before: i64) -> (i64, i64) {
    let (stats, _) = in_dhat(dhat::HeapStats::get);
    let counted = process_tallies().since(before);
    assert_eq!(counted.allocated_bytes, stats.total_bytes);
    assert_eq!(counted.allocated_blocks, stats.total_blocks);
    assert_eq!(counted.net_bytes(), stats.curr_bytes as i64);
    assert_eq!(counted.net_blocks(), stats.curr_blocks as i64);
    assert_eq!(live_bytes() - live_before, stats.curr_bytes as i64);
    (peak_bytes() - live_before, stats.max_bytes as i64)
}

/// Runs without a test harness, because the harness's thread would also allocate.
fn main() {
    let _counting = Counting::start();
    a_short_peak();
    one_thread();
    many_threads();
    println!("dhat and the tracking allocator agree");
}

/// Checks a block that is freed before the thread flushes its counts.
fn a_short_peak() {
    let (before, live_before) = (process_tallies(), live_bytes());
    let (profiler, _) = in_dhat(|| dhat::Profiler::builder().testing().build());
    let kept = std::hint::black_box(vec![0_u8; 1_000]);
    drop(std::hint::black_box(vec![0_u8; FLUSH_BYTES as usize / 2]));
    let (ours, dhats) = compare(&before, live_before);
    assert_eq!((ours, dhats), (1_000 + FLUSH_BYTES as i64 / 2, 1_000 + FLUSH_BYTES as i64 / 2));
    drop(kept);
    in_dhat(|| drop(profiler));
}

fn one_thread() {
    let (before, live_before) = (process_tallies(), live_bytes());
    let (profiler, _) = in_dhat(|| dhat::Profiler::builder().testing().build());
    let kept = work(1);
    let (ours, dhats) = compare(&before, live_before);
    // dhat's peak covers every change. In this single-threaded run, mlprof's peak does too.
    assert_eq!(ours, dhats);
    assert!(ours > 1_000_000, "{ours}");
    drop(kept);
    let (ours, dhats) = compare(&before, live_before);
    assert_eq!(ours, dhats);
    in_dhat(|| drop(profiler));
}

/// Runs 16 threads. Each keeps its data until all are done and lets another thread free half of it.
fn many_threads() {
    const THREADS: usize = 16;
    let (before, live_before) = (process_tallies(), live_bytes());
    let (profiler, _) = in_dhat(|| dhat::Profiler::builder().testing().build());
    let barrier = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS as u64)
        .map(|seed| {
            let barrier = barrier.clone();
            std::thread::spawn(move || {
                let (strings, tree) = work(seed);
                barrier.wait();
                drop(strings);
                tree
            })
        })
        .collect();
    let trees: Vec<_> =
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
    drop(trees);
    drop(barrier);
    let (ours, dhats) = compare(&before, live_before);
    let off = (ours - dhats).abs();
    // Each of these threads and the main thread may hold back as much at the peak.
    assert!(off <= FLUSH_BYTES as i64 * (THREADS as i64 + 1), "{ours} and {dhats}");
    assert!(dhats > 16 * 1_000_000, "{dhats}");
    println!("peak of {THREADS} threads: {ours} B, dhat: {dhats} B");
    in_dhat(|| drop(profiler));
}
