//! Ctrl-C (SIGINT) and SIGTERM as a polite request to finish.
//!
//! While a [`Watch`] is alive the first signal only sets its flag, so that a training loop can end
//! its step, write its report and return. A second signal leaves at once, as the signal would have
//! done without a watch. Outside of any watch signals do what they always did: they end the
//! process, or run the program's own handler.
//!
//! ```
//! let watch = profiler_core::interrupt::watch();
//! for step in 0..3 {
//!     if watch.requested() {
//!         break;
//!     }
//!     // … train …
//! }
//! drop(watch); // from here on Ctrl-C ends the process again
//! ```
//!
//! A signal that the process ignores when the first watch begins (as under `nohup`) stays ignored.
//! A handler of the program's own is still called, before the flag is set, if it was installed
//! before the first watch. Install such handlers first: one that comes later either takes our place
//! (then a watch sees nothing), or is called although the signal then also ends the process.
//!
//! On Windows Ctrl-C does the same; nothing there sends SIGTERM from outside.

use std::io::Write;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use crate::forking::{Mutex, MutexGuard};

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

static HANDLERS: Mutex<Handlers> = Mutex::new(Handlers { installed: None, watches: 0 });
/// Whether the note to the user was written since the first of the present watches began.
static IS_ANNOUNCED: AtomicBool = AtomicBool::new(false);

struct Handlers {
    /// `None` before the first watch. Handlers stay for the life of the process.
    installed: Option<Vec<Handled>>,
    watches: usize,
}

/// A signal that we take part in.
struct Handled {
    signal: c_int,
    /// Whether the next signal ends the process.
    leaves: Arc<AtomicBool>,
    /// What `leaves` is while nobody watches.
    leaves_unwatched: bool,
}

impl Handlers {
    fn lock() -> MutexGuard<'static, Self> {
        HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks that the first SIGINT or SIGTERM from here on sets a flag instead of ending the process.
///
/// Watches may overlap, on one thread or on several: a signal reaches all that are alive, and after
/// it the next one ends the process until the last of them is dropped.
///
/// *Cost*: six signal registrations, some µs. Where the system refuses them,
/// that is said on standard error, and signals do what they did before.
pub fn watch() -> Watch {
    let requested = Arc::new(AtomicBool::new(false));
    let mut handlers = Handlers::lock();
    let is_first = handlers.watches == 0;
    handlers.watches += 1;
    let installed = handlers.installed.get_or_insert_with(install);
    let flags: Vec<_> = std::iter::once(&requested)
        .chain(installed.iter().map(|handled| &handled.leaves))
        .collect();
    let registrations = installed
        .iter()
        .flat_map(|handled| flags.iter().map(|flag| (handled.signal, Arc::clone(flag))))
        .filter_map(|(signal, flag)| accepted(flag::register(signal, flag)))
        .collect();
    if is_first {
        IS_ANNOUNCED.store(false, Ordering::Relaxed);
        // Last: until the flags above are in place, a signal ends the process rather than get lost.
        installed.iter().for_each(|handled| handled.leaves.store(false, Ordering::SeqCst));
    }
    Watch { requested, registrations }
}

/// Turns the first signal into a flag while it is alive; see [`watch`].
#[must_use = "signals are watched for only until this is dropped"]
#[derive(Debug)]
pub struct Watch {
    requested: Arc<AtomicBool>,
    registrations: Vec<SigId>,
}

impl Watch {
    /// Whether a signal has come since this watch began. The first one to see it says so on
    /// standard error.
    ///
    /// *Cost*: one relaxed load.
    #[inline]
    pub fn requested(&self) -> bool {
        let is_requested = self.requested.load(Ordering::Relaxed);
        if is_requested {
            announce();
        }
        is_requested
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut handlers = Handlers::lock();
        handlers.watches -= 1;
        let released = if handlers.watches == 0 { handlers.installed.as_deref() } else { None };
        let released = released.unwrap_or_default();
        // First, so that no signal is lost while the flags go.
        for handled in released.iter().filter(|handled| handled.leaves_unwatched) {
            handled.leaves.store(true, Ordering::SeqCst);
        }
        for registration in self.registrations.drain(..) {
            low_level::unregister(registration);
        }
        for handled in released {
            handled.leaves.store(handled.leaves_unwatched, Ordering::SeqCst);
        }
    }
}

/// Not in the signal handler, which may not write.
#[cold]
fn announce() {
    if IS_ANNOUNCED.swap(true, Ordering::Relaxed) {
        return;
    }
    // Standard error may be closed: then nobody reads the note.
    let _ = writeln!(
        std::io::stderr(),
        "mlprof: interrupted, finishing with a report; a second Ctrl-C leaves at once"
    );
}

fn install() -> Vec<Handled> {
    [SIGINT, SIGTERM]
        .into_iter()
        .filter_map(|signal| {
            let leaves_unwatched = match disposition(signal) {
                Disposition::Default => true,
                Disposition::Ignored => return None,
                Disposition::Handled => false,
            };
            let leaves = Arc::new(AtomicBool::new(leaves_unwatched));
            // Before the flags of any watch: handlers run in the order of registration, so the
            // signal that sets `leaves` does not find it set.
            accepted(flag::register_conditional_default(signal, Arc::clone(&leaves)))?;
            Some(Handled { signal, leaves, leaves_unwatched })
        })
        .collect()
}

fn accepted(registration: std::io::Result<SigId>) -> Option<SigId> {
    registration
        .map_err(|error| {
            let _ = writeln!(std::io::stderr(), "mlprof: cannot watch for Ctrl-C: {error}");
        })
        .ok()
}

/// Whether a signal ends the process, or does what else the system does with it.
pub(crate) fn is_default(signal: c_int) -> bool {
    matches!(disposition(signal), Disposition::Default)
}

/// Whether a [`Watch`] is alive.
pub(crate) fn is_watched() -> bool {
    Handlers::lock().watches > 0
}

/// What a signal does before we take part in it.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix tells"))]
enum Disposition {
    Default,
    Ignored,
    Handled,
}

#[cfg(unix)]
fn disposition(signal: c_int) -> Disposition {
    match handler(signal) {
        libc::SIG_DFL => Disposition::Default,
        libc::SIG_IGN => Disposition::Ignored,
        _ => Disposition::Handled,
    }
}

/// The address of what handles a signal now.
#[cfg(unix)]
pub(crate) fn handler(signal: c_int) -> usize {
    let mut current = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action `sigaction` changes nothing; it fills `current`, which outlives
    // the call. All-zero is a valid `sigaction`, so it may be read even if the call fails. No safe
    // interface asks for the disposition without setting one.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), current.as_mut_ptr());
        current.assume_init().sa_sigaction
    }
}

/// Windows tells nobody; hardly a program there changes it.
#[cfg(not(unix))]
fn disposition(_signal: c_int) -> Disposition {
    Disposition::Default
}
