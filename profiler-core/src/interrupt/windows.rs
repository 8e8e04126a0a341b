//! Watches for Ctrl-C on Windows.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGINT;
use signal_hook::low_level;

use super::{REQUESTS, WATCHES, say};

static IS_REQUESTED: AtomicBool = AtomicBool::new(false);

#[derive(Debug)]
pub(super) struct Part(());

impl Part {
    /// Installs the handler, which stays until the process ends. Without a watch, it performs the
    /// system's default action.
    pub(super) fn take(is_watching: bool) -> Self {
        static INSTALLED: Once = Once::new();
        if is_watching {
            INSTALLED.call_once(|| {
                // SAFETY: the handler only changes atomics or performs the default action, both of
                // which a signal handler may do.
                if let Err(error) = unsafe { low_level::register(SIGINT, answer) } {
                    say(&format!("cannot watch for Ctrl-C: {error}"));
                }
            });
        }
        Self(())
    }
}

fn answer() {
    if WATCHES.load(Ordering::SeqCst) > 0 && !IS_REQUESTED.swap(true, Ordering::SeqCst) {
        REQUESTS.fetch_add(1, Ordering::SeqCst);
    } else {
        let _ = low_level::emulate_default_handler(SIGINT);
    }
}

pub(super) fn forget_request() {
    IS_REQUESTED.store(false, Ordering::SeqCst);
}

pub(super) fn wait_for_the_end() {}
