//! The end of the process, at which NVML takes itself down: nobody may be inside of it then.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The process ends after this long, whoever is inside.
const PATIENCE: Duration = Duration::from_secs(1);

static IS_ENDING: AtomicBool = AtomicBool::new(false);
static IS_INSIDE: AtomicBool = AtomicBool::new(false);
/// The process whose thread may be inside: a forked child has no such thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Does `work`, unless the process ends; its end waits for it.
pub(super) fn before<T>(work: impl FnOnce() -> T) -> Option<T> {
    // In the order of all: either the end sees us inside, or we see it.
    IS_INSIDE.store(true, Ordering::SeqCst);
    let result = (!IS_ENDING.load(Ordering::SeqCst)).then(work);
    IS_INSIDE.store(false, Ordering::SeqCst);
    result
}

/// From here on the end of the process waits.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PROCESS.store(std::process::id(), Ordering::SeqCst);
        #[cfg(unix)]
        // SAFETY: the function neither panics nor uses what the end has taken down already. If there
        // is no room for it, the end is as it would be.
        unsafe {
            libc::atexit(at_exit);
        }
    });
}

#[cfg_attr(not(unix), expect(dead_code, reason = "libraries end by themselves there"))]
extern "C" fn at_exit() {
    if PROCESS.load(Ordering::SeqCst) != std::process::id() {
        return;
    }
    IS_ENDING.store(true, Ordering::SeqCst);
    let start = Instant::now();
    while IS_INSIDE.load(Ordering::SeqCst) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(100));
    }
}
