//! Checks that scopes make no calls of the program's allocator after their first use. A scope may
//! end in a signal handler that has interrupted the allocator on the same thread. The allocator's
//! lock would then never be released. A scope also must not wait for another thread that is
//! allocating.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlprof_core::{
    Action, ActiveScope, AdvancedProfiler, Interest, Profiler, RunContext, SimpleProfiler, Stage,
    activate, profile,
};

/// System allocator that counts the calls of each thread.
struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
    /// Set while each allocator call of this thread waits until another thread has run a scope.
    static WAITS: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    let _ = CALLS.try_with(|calls| calls.set(calls.get() + 1));
    if WAITS.try_with(Cell::get).unwrap_or(false) {
        wait_for_a_scope();
    }
}

/// Number of requested scopes, number of completed ones, and a flag that is set if one did not
/// complete.
static ASKED: AtomicU64 = AtomicU64::new(0);
static ANSWERED: AtomicU64 = AtomicU64::new(0);
static HANGS: AtomicBool = AtomicBool::new(false);

fn wait_for_a_scope() {
    let number = ASKED.fetch_add(1, Ordering::SeqCst) + 1;
    let started = Instant::now();
    while ANSWERED.load(Ordering::SeqCst) < number && !HANGS.load(Ordering::SeqCst) {
        if started.elapsed() > Duration::from_secs(10) {
            HANGS.store(true, Ordering::SeqCst);
        }
        std::thread::yield_now();
    }
}

// SAFETY: every call is passed unchanged to the system's allocator. Counting uses a thread-local
// that needs no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller upholds the contract, and the arguments are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Serialises the tests. After an activation on any thread, this thread would have to allocate to
/// update its cache.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Returns the number of allocator calls made by `work`.
fn calls_of(work: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    work();
    CALLS.get() - before
}

fn profilers() -> [(&'static str, Arc<dyn Profiler>); 2] {
    [("Simple", Arc::new(SimpleProfiler::new())), ("Advanced", Arc::new(AdvancedProfiler::new()))]
}

/// Opens ten names inside each other, recursively up to `depth`.
fn scopes_inside_each_other(names: &[Action], depth: usize) {
    if depth > 0 {
        let name = names[depth % names.len()];
        let _scope = ActiveScope::open(|| name, Interest::ACTIONS);
        scopes_inside_each_other(names, depth - 1);
    }
}

/// Covers the first duration in every other power of two, up to 33 ms.
#[test]
#[cfg_attr(not(unix), ignore = "where no signal handler interrupts the allocator, it is used")]
fn a_duration_unlike_all_others_takes_nothing_from_the_allocator() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, profiler) in profilers() {
        let _active = activate(profiler.clone());
        let scopes = |lengths: &[u64]| {
            for length in lengths {
                let _scope = profile!("of one length, and then of others");
                let (started, length) = (Instant::now(), Duration::from_nanos(*length));
                while started.elapsed() < length {
                    std::hint::spin_loop();
                }
            }
        };
        assert!(calls_of(|| scopes(&[0, 0])) > 0, "{name}: the first time takes memory");
        let lengths: Vec<u64> = (6..=25).map(|power| 1 << power).collect();
        assert_eq!(calls_of(|| scopes(&lengths)), 0, "{name}");
        drop(profiler.summary());
        assert_eq!(calls_of(|| scopes(&lengths)), 0, "{name}, after a report");
    }
}

#[test]
#[cfg_attr(not(unix), ignore = "where no signal handler interrupts the allocator, it is used")]
fn deeper_nesting_takes_nothing_from_the_allocator() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<Action> = (0..10).map(|name| Action::new(&format!("n{name}"))).collect();
    for (name, profiler) in profilers() {
        let _active = activate(profiler);
        // This opens each name inside every name that can enclose it.
        scopes_inside_each_other(&names, 40);
        for depth in [100, 200, 3000, 150, 3000] {
            let calls = calls_of(|| scopes_inside_each_other(&names, depth));
            assert_eq!(calls, 0, "{name}: {depth} scopes deep");
        }
    }
}

/// Checks that the end of a lost scope also does not allocate. It is searched for in all tables.
#[test]
fn the_end_of_a_scope_that_was_lost_takes_nothing_from_the_allocator() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (known, lost) = (Action::new("known"), Action::new("lost"));
    for (name, profiler) in profilers() {
        for stage in [Stage::Fit, Stage::Validate] {
            profiler.setup(stage, &RunContext::default());
            profiler.start(known);
        }
        assert_eq!(calls_of(|| assert!(profiler.stop(lost).is_err())), 0, "{name}");
        for _stage in 0..2 {
            assert_eq!(calls_of(|| profiler.stop(known).expect("it was started")), 0, "{name}");
        }
    }
}

/// Checks a scope that ends while a report allocates. The scope may be in a signal handler that has
/// interrupted the allocator.
#[test]
fn no_scope_waits_while_a_report_takes_from_the_allocator() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, profiler) in profilers() {
        let is_over = AtomicBool::new(false);
        let (opened, is_open) = std::sync::mpsc::channel();
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let _active = activate(profiler.clone());
                let recursive = || profile!("recursive, which a thread looks for among its own");
                // The open scopes fill more than one chunk of the stack.
                let around: Vec<_> = (0..200).map(|_| recursive()).collect();
                drop(recursive());
                opened.send(()).expect("heard");
                while !is_over.load(Ordering::SeqCst) {
                    if ANSWERED.load(Ordering::SeqCst) < ASKED.load(Ordering::SeqCst) {
                        drop(recursive());
                        ANSWERED.fetch_add(1, Ordering::SeqCst);
                    }
                    std::thread::yield_now();
                }
                drop(around);
            });
            is_open.recv().expect("opened");
            let before = ASKED.load(Ordering::SeqCst);
            WAITS.set(true);
            let report = profiler.report();
            WAITS.set(false);
            is_over.store(true, Ordering::SeqCst);
            assert!(!HANGS.load(Ordering::SeqCst), "{name}");
            assert!(ASKED.load(Ordering::SeqCst) > before + 10 && report.is_some(), "{name}");
        });
    }
}
