//! Locks that no forked child finds taken for ever.
//!
//! A child has only the thread that forked. A lock that another thread held at that moment stays
//! locked in the child, where the first use of an action would wait without end. So the short
//! pieces of work that take locks while a program trains are done [`apart_from_forks`]: a fork
//! waits until they are through, and they wait until a fork is.
//!
//! All locks of this crate are [`Mutex`]es of this module, or are taken only in such pieces of work; what
//! is made once for the process is made in one.
//!
//! Not covered are CUDA's driver and its tools, which no child may use anyway, and locks of others: of
//! the standard streams while the program itself prints, of a framework. Where work takes longer than
//! three seconds (a report to a pipe that nobody reads) the fork goes on without it.

use std::sync::OnceLock;

mod lock;

pub use self::lock::{Mutex, MutexGuard};
use crate::process_id;
use crate::sync::{AtomicU64, Ordering};

/// Keeps work and forks apart: the number of the thread that forks (0: none) above the number of
/// threads that are at work.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix forks"))]
struct Gate(AtomicU64);

#[cfg_attr(not(unix), expect(dead_code, reason = "as above"))]
const FORKING: u32 = 32;

#[cfg_attr(not(unix), expect(dead_code, reason = "as above"))]
impl Gate {
    /// Whether `thread` may work from here on, until it [`leave`](Self::leave)s.
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

    /// Whether no other thread forks: then none begins to work until [`open`](Self::open).
    fn close(&self, thread: u32) -> bool {
        let closed = |state| (state >> FORKING == 0).then(|| state | u64::from(thread) << FORKING);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, closed).is_ok()
    }

    /// Whether no more than `own` threads are left at work: the one that forks, or none.
    fn is_quiet(&self, own: u32) -> bool {
        self.0.load(Ordering::Acquire) as u32 <= own
    }

    fn open(&self, thread: u32) {
        self.0.fetch_sub(u64::from(thread) << FORKING, Ordering::AcqRel);
    }
}

/// Does what takes locks that a forked child may want. *Cost*: two atomic additions; outside of
/// Unix nothing.
pub fn apart_from_forks<T>(work: impl FnOnce() -> T) -> T {
    let _at_work = AtWork::begin();
    work()
}

#[cfg(all(unix, not(loom)))]
use self::process::AtWork;

/// Nothing to keep apart.
#[cfg(not(all(unix, not(loom))))]
struct AtWork;

#[cfg(not(all(unix, not(loom))))]
impl AtWork {
    fn begin() -> Self {
        Self
    }
}

/// Whether the calling thread does such work now, and so may have a lock of ours: whoever interrupted
/// it, a signal handler or the program's allocator, would wait for itself.
#[cfg(all(unix, not(loom)))]
pub use self::process::is_at_work;

/// As where forks are watched: but nothing is known here.
#[cfg(not(all(unix, not(loom))))]
pub fn is_at_work() -> bool {
    false
}

/// What is made once for the process: no child waits for a thread that was making it.
pub fn made_once<T>(once: &'static OnceLock<T>, make: impl FnOnce() -> T) -> &'static T {
    match once.get() {
        Some(made) => made,
        None => apart_from_forks(|| once.get_or_init(make)),
    }
}

/// A number for the calling process that none of its forked children shares, and never 0. The
/// number of the process alone does not do: the first process of a container can fork the first
/// process of another one, and both are number 1.
///
/// May be called in a signal handler. *Cost*: one system call.
pub fn this_process() -> u64 {
    u64::from(forks()) << 32 | u64::from(process_id())
}

/// Forks that lie between the process that began to [watch](watch()) and this one. *Cost*: one
/// relaxed load.
pub fn forks() -> u32 {
    #[cfg(all(unix, not(loom)))]
    let forks = process::forks();
    #[cfg(not(all(unix, not(loom))))]
    let forks = 0;
    forks
}

/// Has the system tell of forks from here on: to be called before there are threads, as what is
/// under way meanwhile is not told.
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

    /// A fork goes on without its peace after this long, and so does work: rather a child that may
    /// hang than a program that does.
    const PATIENCE: Duration = Duration::from_secs(3);

    static GATE: Gate = Gate(AtomicU64::new(0));
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);

    /// Forks that lie between the process that began to watch and this one.
    static FORKS: AtomicU32 = AtomicU32::new(0);

    thread_local! {
        /// Pieces of work of this thread that are inside each other.
        static DEPTH: Cell<u32> = const { Cell::new(0) };
        /// This thread has closed the gate.
        static HAS_CLOSED: Cell<bool> = const { Cell::new(false) };
    }

    pub fn is_at_work() -> bool {
        DEPTH.get() > 0
    }

    pub(super) fn forks() -> u32 {
        FORKS.load(Ordering::Relaxed)
    }

    pub(super) struct AtWork;

    impl AtWork {
        pub(super) fn begin() -> Self {
            watch();
            let depth = DEPTH.get();
            DEPTH.set(depth + 1);
            if depth == 0 && !waits_for(|| GATE.enter(this_thread())) {
                GATE.0.fetch_add(1, Ordering::AcqRel); // `drop` will take it back
            }
            Self
        }
    }

    impl Drop for AtWork {
        fn drop(&mut self) {
            let depth = DEPTH.get() - 1;
            DEPTH.set(depth);
            if depth == 0 {
                GATE.leave();
            }
        }
    }

    pub(super) fn watch() {
        // Miri knows no forks.
        if !cfg!(miri)
            && !IS_WATCHED.load(Ordering::Relaxed)
            && !IS_WATCHED.swap(true, Ordering::Relaxed)
        {
            // SAFETY: the handlers neither panic nor allocate. It fails only without memory: then
            // forks are as they would be.
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
        // Whoever else worked or forked does not exist here.
        GATE.0.store(u64::from(own()), Ordering::Release);
    }

    /// Whether `is_so` became true in time.
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

    /// A number that no other thread has; not 0.
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

        /// A thread is at work nearly all the time, and yet no child finds it so.
        #[test]
        fn no_child_sees_others_at_work() {
            let is_over = AtomicBool::new(false);
            let working = Mutex::new(());
            std::thread::scope(|threads| {
                threads.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        apart_from_forks(|| {
                            let _working = working.lock();
                            // Inside each other, too.
                            apart_from_forks(|| std::hint::black_box([0_u8; 4096]));
                        });
                    }
                });
                for _ in 0..200 {
                    // SAFETY: the child takes a lock and ends.
                    let child = unsafe { libc::fork() };
                    assert!(child >= 0);
                    if child == 0 {
                        let is_free = working.try_lock().is_ok();
                        // SAFETY: ends the child without the parent's exit handlers.
                        unsafe { libc::_exit(i32::from(!is_free)) }
                    }
                    let mut status = 0;
                    // SAFETY: room for the status.
                    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                    assert_eq!(status, 0);
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }

        #[test]
        fn a_forked_child_is_another_process_than_its_parent() {
            apart_from_forks(|| ()); // forks are watched from here on
            let parent = this_process();
            assert_eq!(parent, this_process());
            // SAFETY: the child compares two numbers, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // The part above the number of the process differs, too: in a new container that
                // number may be the same.
                let is_another = this_process() >> 32 != parent >> 32;
                // SAFETY: ends the child without the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!is_another)) }
            }
            let mut status = 1;
            // SAFETY: room for the status.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(status, 0);
        }

        #[test]
        fn a_fork_inside_work_does_not_wait_for_it() {
            let start = Instant::now();
            let status = apart_from_forks(|| {
                // SAFETY: the child ends at once.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: as above.
                    unsafe { libc::_exit(0) }
                }
                let mut status = 1;
                // SAFETY: room for the status.
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

    /// What loom watches for two users at a time stands for what locks guard.
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
