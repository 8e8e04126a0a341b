//! Coordination with the process exit. NVIDIA's libraries shut down at exit, and no thread of
//! mlprof may be inside them at that time.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Maximum time for which the exit waits for threads inside a library.
const PATIENCE: Duration = Duration::from_secs(1);

static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Number of threads inside a library.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Id of the process that registered the exit handler. A forked child does not inherit the threads,
/// so it need not wait for them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Drop guard that leaves the section, even if `work` panics.
struct SectionGuard;

impl Drop for SectionGuard {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs `work` unless the process is exiting. The exit waits until `work` returns.
pub(crate) fn before<T>(work: impl FnOnce() -> T) -> Option<T> {
    // The order is sequentially consistent: either the exit handler sees this thread inside, or
    // this thread sees that the process is exiting.
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let _inside = SectionGuard;
    (!IS_ENDING.load(Ordering::SeqCst)).then(work)
}

/// Makes the process exit wait from now on. Call it once per library after the library was loaded,
/// because exit handlers run in reverse order of registration.
pub(crate) fn watch() {
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    #[cfg(unix)]
    // SAFETY: `at_exit` is an `extern "C"` function without arguments, as `atexit` requires, and it
    // does not panic. It uses only statics without destructors, so it may run during the exit. If
    // registration fails, the exit does not wait.
    unsafe {
        libc::atexit(at_exit);
    }
}

#[cfg_attr(not(unix), expect(dead_code, reason = "libraries end by themselves there"))]
extern "C" fn at_exit() {
    if PROCESS.load(Ordering::SeqCst) != std::process::id() {
        return;
    }
    IS_ENDING.store(true, Ordering::SeqCst);
    let start = Instant::now();
    while INSIDE.load(Ordering::SeqCst) > 0 && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(100));
    }
}
