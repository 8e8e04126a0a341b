//! Locks that no forked child finds held forever.
//!
//! A child process has only the thread that forked. A lock that another thread held at that moment
//! stays locked in the child. The first use of an action in the child would then wait forever. So
//! short sections that take locks while a program trains run [`apart_from_forks`]. A fork waits
//! until all of them have ended, and new ones wait until the fork is over.
//!
//! All locks of this crate are [`Mutex`]es of this module, or are taken only in such sections.
//! Values that are created once per process are also created in such a section.
//!
//! This does not cover CUDA's driver and tools, which a child must not use anyway. It also does not
//! cover locks of other code, such as a framework or the standard streams while the program itself
//! prints. If a section takes longer than three seconds (a report to a pipe without a reader), the
//! fork proceeds without waiting.

use std::sync::OnceLock;

mod lock;

pub use self::lock::{Mutex, MutexGuard};
use crate::process_id;
use crate::sync::{AtomicU64, Ordering};

/// Lock-free gate that keeps sections and forks apart. The upper 32 bits hold the number of the
/// forking thread, or 0. The lower 32 bits hold the number of threads inside a section.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
struct Gate(AtomicU64);

#[cfg_attr(not(unix), expect(dead_code, reason = "as above"))]
const FORKING: u32 = 32;

#[cfg_attr(not(unix), expect(dead_code, reason = "as above"))]
impl Gate {
    /// Tries to enter a section. Returns `true` if `thread` may proceed until it calls
    /// [`leave`](Self::leave).
    fn enter(&self, thread: u32) -> bool {
        let forking = self.0.fetch_add(1, Ordering::AcqRel) >> FORKING;
        let may_work = forking == 0 || forking == u64::from(thread);
        if !may_work {
            self.leave();
        }
        may_work
    }

    fn leave(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Closes the gate for a fork by `thread`. Returns `false` if another thread is forking. After
    /// success no other thread enters a section until [`open`](Self::open).
    fn close(&self, thread: u32) -> bool {
        let closed = |state| (state >> FORKING == 0).then(|| state | u64::from(thread) << FORKING);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, closed).is_ok()
    }

    /// Returns `true` if at most `own` threads are inside a section. `own` is 1 if the forking
    /// thread is itself in a section, otherwise 0.
    fn is_quiet(&self, own: u32) -> bool {
        self.0.load(Ordering::Acquire) as u32 <= own
    }

    fn open(&self, thread: u32) {
        self.0.fetch_sub(u64::from(thread) << FORKING, Ordering::AcqRel);
    }
}

/// Runs `work`, which takes locks that a forked child may need. *Cost*: two atomic additions, or
/// none on systems other than Unix.
pub fn apart_from_forks<T>(work: impl FnOnce() -> T) -> T {
    let _at_work = ForkGuard::begin();
    work()
}

#[cfg(all(unix, not(loom)))]
use self::process::ForkGuard;

/// Empty guard, because this platform has no forks to wait for.
#[cfg(not(all(unix, not(loom))))]
struct ForkGuard;

#[cfg(not(all(unix, not(loom))))]
impl ForkGuard {
    fn begin() -> Self {
        Self
    }
}

/// Returns `true` if the calling thread is inside a section and may therefore hold one of our
/// locks. A signal handler or allocator that interrupts the section would deadlock if it took such
/// a lock.
#[cfg(all(unix, not(loom)))]
pub use self::process::is_at_work;

/// Returns `false`, because sections are not tracked on this platform.
#[cfg(not(all(unix, not(loom))))]
pub fn is_at_work() -> bool {
    false
}

/// Returns a value that is created once per process. A forked child never waits for a thread that
/// was creating it.
pub fn made_once<T>(once: &'static OnceLock<T>, make: impl FnOnce() -> T) -> &'static T {
    match once.get() {
        Some(made) => made,
        None => apart_from_forks(|| once.get_or_init(make)),
    }
}

/// Returns a number for the calling process that none of its forked children shares, and that is
/// never 0. The process id alone is not sufficient. The first process of a container can fork the
/// first process of another container, and both have the id 1.
///
/// The function may be called in a signal handler. *Cost*: one system call.
pub fn this_process() -> u64 {
    u64::from(forks()) << 32 | u64::from(process_id())
}

/// Returns the number of forks between the process that began to [watch](watch()) and this one.
/// *Cost*: one relaxed load.
pub fn forks() -> u32 {
    #[cfg(all(unix, not(loom)))]
    let forks = process::forks();
    #[cfg(not(all(unix, not(loom))))]
    let forks = 0;
    forks
}

/// Registers handlers for forks. It must be called before other threads exist, because sections
/// that are already running are not tracked.
pub fn watch() {
    #[cfg(all(unix, not(loom)))]
    process::watch();
}

#[cfg(all(unix, not(loom)))]
mod process {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, AtomicU32};
    use std::time::{Duration, Instant};

    use super::*;

    /// Time limit for a fork that waits for sections, and for a section that waits for a fork. Both
    /// proceed afterwards: a child that may hang is better than a program that does hang.
    const PATIENCE: Duration = Duration::from_secs(3);

    static GATE: Gate = Gate(AtomicU64::new(0));
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);

    /// Number of forks between the process that began to watch and this one.
    static FORKS: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        /// Nesting depth of this thread's sections.
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        /// Set while this thread has closed the gate.
        static HAS_CLOSED: Cell<bool> = const { Cell::new(false) };
    }

    pub fn is_at_work() -> bool {
        DEPTH.get() > 0
    }

    pub(super) fn forks() -> u32 {
        FORKS.load(Ordering::Relaxed)
    }

    pub(super) struct ForkGuard;

    impl ForkGuard {
        pub(super) fn begin() -> Self {
            watch();
            let depth = DEPTH.get();
            DEPTH.set(depth + 1);
            if depth == 0 && !waits_for(|| GATE.enter(this_thread())) {
                GATE.0.fetch_add(1, Ordering::AcqRel); // `drop` subtracts it again
            }
            Self
        }
    }

    impl Drop for ForkGuard {
        fn drop(&mut self) {
            let depth = DEPTH.get() - 1;
            DEPTH.set(depth);
            if depth == 0 {
                GATE.leave();
            }
        }
    }

    pub(super) fn watch() {
        // Miri does not support forks.
        if !cfg!(miri)
            && !IS_WATCHED.load(Ordering::Relaxed)
            && !IS_WATCHED.swap(true, Ordering::Relaxed)
        {
            // SAFETY: the handlers have the expected signature and stay valid for the life of the
            // process. They neither panic nor allocate. The call fails only for lack of memory, and
            // then forks proceed without the handlers.
            unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        }
    }

    fn own() -> u32 {
        u32::from(DEPTH.get() > 0)
    }

    extern "C" fn before() {
        let is_closed = waits_for(|| GATE.close(this_thread()));
        HAS_CLOSED.set(is_closed);
        if is_closed {
            waits_for(|| GATE.is_quiet(own()));
        }
    }

    extern "C" fn in_parent() {
        if HAS_CLOSED.replace(false) {
            GATE.open(this_thread());
        }
    }

    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        HAS_CLOSED.set(false);
        // The other threads do not exist in the child, so neither their sections nor their forks
        // count.
        GATE.0.store(u64::from(own()), Ordering::Release);
    }

    /// Waits until `is_so` returns `true`. Returns `false` after the time limit.
    fn waits_for(is_so: impl Fn() -> bool) -> bool {
        if is_so() {
            return true;
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            std::thread::yield_now();
            if is_so() {
                return true;
            }
        }
        false
    }

    /// Returns a unique number for this thread, never 0.
    fn this_thread() -> u32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        thread_local!(static NUMBER: Cell<u32> = const { Cell::new(0) });
        if NUMBER.get() == 0 {
            NUMBER.set(LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1).max(1));
        }
        NUMBER.get()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Checks that a child never finds another thread inside a section, although that thread is
        /// in one nearly all the time.
        #[test]
        fn no_child_sees_others_at_work() {
            let is_over = AtomicBool::new(false);
            let working = Mutex::new(());
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        apart_from_forks(|| {
                            let _working = working.lock();
                            // Sections may be nested.
                            apart_from_forks(|| std::hint::black_box([0_u8; 4096]));
                        });
                    }
                });
                for _ in 0..200 {
                    // SAFETY: the child only tries to take a lock and then exits.
                    let child = unsafe { libc::fork() };
                    assert!(child >= 0);
                    if child == 0 {
                        let is_free = working.try_lock().is_ok();
                        // SAFETY: `_exit` takes a number. It ends the child without running the
                        // parent's exit handlers.
                        unsafe { libc::_exit(i32::from(!is_free)) }
                    }
                    let mut status = 0;
                    // SAFETY: `status` is a valid place for the exit status.
                    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                    assert_eq!(status, 0);
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }

        #[test]
        fn a_forked_child_is_another_process_than_its_parent() {
            apart_from_forks(|| ()); // enables the detection of forks
            let parent = this_process();
            assert_eq!(parent, this_process());
            // SAFETY: the child only compares two numbers and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // The upper half must also differ, because a child in a new container may have the
                // same process id.
                let is_another = this_process() >> 32 != parent >> 32;
                // SAFETY: `_exit` takes a number. It ends the child without running the parent's
                // exit handlers.
                unsafe { libc::_exit(i32::from(!is_another)) }
            }
            let mut status = 1;
            // SAFETY: `status` is a valid place for the exit status.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
        }

        #[test]
        fn a_fork_inside_work_does_not_wait_for_it() {
            let start = Instant::now();
            let status = apart_from_forks(|| {
                // SAFETY: the child exits at once.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: `_exit` takes a number. It ends the child without running the
                    // parent's exit handlers.
                    unsafe { libc::_exit(0) }
                }
                let mut status = 1;
                // SAFETY: `status` is a valid place for the exit status.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                status
            });
            assert!(status == 0 && start.elapsed() < PATIENCE);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Checks with loom that a section and a fork never overlap. A cell stands for the data that
    /// locks protect, because loom reports two simultaneous accesses to it.
    #[test]
    fn work_and_a_fork_never_meet() {
        let orders = std::sync::Arc::new(AtomicUsize::new(0));
        let counted = orders.clone();
        loom::model(move || {
            counted.fetch_add(1, Relaxed);
            let shared = Arc::new((Gate(AtomicU64::new(0)), loom::cell::UnsafeCell::new(0)));
            let worker = {
                let shared = shared.clone();
                thread::spawn(move || {
                    if shared.0.enter(1) {
                        shared.1.with_mut(|_| ());
                        shared.0.leave();
                    }
                })
            };
            assert!(shared.0.close(2));
            if shared.0.is_quiet(0) {
                shared.1.with_mut(|_| ());
            }
            shared.0.open(2);
            worker.join().expect("worker");
        });
        assert!(orders.load(Relaxed) > 5, "{orders:?}");
    }
}
