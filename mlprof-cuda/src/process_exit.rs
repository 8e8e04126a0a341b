//! The end of the process, at which libraries of NVIDIA's take themselves down: no thread of ours may be
//! inside of one then.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The process ends after this long, whoever is inside.
const PATIENCE: Duration = Duration::from_secs(1);

static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// How many threads are inside.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// The process whose threads may be inside: a forked child has no such threads.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Leaves, also when `work` panics.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Does `work`, unless the process ends; its end waits for it.
pub(crate) fn before<T>(work: impl FnOnce() -> T) -> Option<T> {
    // In the order of all: either the end sees us inside, or we see it.
    INSIDE.fetch_add(1, Ordering::SeqCst);
    let _inside = Inside;
    (!IS_ENDING.load(Ordering::SeqCst)).then(work)
}

/// From here on the end of the process waits. To be called once for each library, after it was loaded:
/// what was told last is done first.
pub(crate) fn watch() {
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    #[cfg(unix)]
    // SAFETY: the function neither panics nor uses what the end has taken down already. If there is no
    // room for it, the end is as it would be.
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
