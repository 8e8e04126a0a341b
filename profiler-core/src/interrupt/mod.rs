//! Effect of signals on a profiled program: Ctrl-C (SIGINT), SIGTERM and SIGHUP.
//!
//! **A profiler only adds a report before the signal takes its usual effect.** A signal that ends
//! the process without a profiler also ends it with one:
//!
//! - Every open [`Session`](crate::Session) delivers its report at once, from an mlprof thread,
//!   while the program continues.
//! - The process then ends by that same signal, so a shell, `make` or job scheduler sees the usual
//!   status.
//! - Code after a training does not run any more. A stage that finishes meanwhile waits for the
//!   process to end.
//! - The state of the program's threads does not matter. They may train several models, hang in a
//!   step, or wait forever.
//! - The report includes actions that are still open.
//!
//! | state of the program | effect of a signal |
//! |---|---|
//! | has no signal handler | the report is delivered, then the signal ends the process |
//! | has its own handler, installed at any time | only that handler runs; the report follows at the end of the stage |
//! | ignores the signal, for example under `nohup` or as a background job | no effect |
//! | uses [`Interrupt::Return`] | the stage ends after its batch and prints a message; the program continues |
//! | has no open session, or only sessions without a profiler | the usual effect |
//! | is process 1 of a container | no effect, because the system drops the signal; a note on standard error explains it |
//!
//! A second signal ends the process at once, regardless of the first one's effect. Two signals
//! within a tenth of a second count as one: `timeout` and a closing terminal both send their signal
//! twice. A report that takes longer than a minute is abandoned, and the process ends. This happens
//! if standard output is not read, or if a thread holds its lock forever.
//!
//! mlprof installs its handlers only while they are needed, and then restores the previous ones. A
//! child process forked meanwhile responds to signals as it would without mlprof. It never delivers
//! a report of its parent.
//!
//! *Process 1 of a container* (`docker run` without `--init`): the system drops signals without a
//! handler there. mlprof therefore installs no handler for the report, and a training continues as
//! it does without a profiler. A [`watch`] and [`Interrupt::Return`] work as usual. The first
//! signal sets the flag, and the second one ends the process with exit code 128 + signal number.
//!
//! A program with its own loop can end cleanly by using a [watch]:
//!
//! ```
//! let watch = mlprof_core::interrupt::watch();
//! for step in 0..3 {
//!     if watch.requested() {
//!         break;
//!     }
//!     // … train …
//! }
//! drop(watch); // Ctrl-C ends the process again
//! ```
//!
//! *On Windows* only watches for Ctrl-C and [`Interrupt::Return`] are supported. Otherwise the
//! process ends without a report. *On WebAssembly* there are no signals, so a watch never sees a
//! request.

#[cfg(unix)]
mod end;
#[cfg(not(any(unix, windows)))]
mod no_signals;
mod reports;
#[cfg(unix)]
mod service;
#[cfg(unix)]
mod signals;
#[cfg(unix)]
mod wakeup;
#[cfg(windows)]
mod windows;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

#[cfg(not(any(unix, windows)))]
use no_signals as signals;
#[cfg(windows)]
use windows as signals;

#[cfg(target_os = "linux")]
pub(crate) use end::{drops_signals, end_by};
#[cfg(target_os = "linux")]
pub(crate) use reports::AtTheEnd;
pub(crate) use reports::PendingReport;
#[cfg(target_os = "linux")]
pub(crate) use signals::{handler, is_default};
#[cfg(target_os = "linux")]
pub(crate) use wakeup::{Waiter, Wakeup};

/// Effect on a training of a signal that would end the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Interrupt {
    /// The signal ends the process, as it does without a profiler, after the report has been
    /// delivered.
    #[default]
    Terminate,
    /// The first signal ends the stage after the running batch and delivers the report. The stage
    /// reports the interruption, and the program continues. A second signal ends the process at
    /// once.
    Return,
}

/// Number of signals that have requested an end.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
/// Number of watches. While it is above 0, the first signal only sets the flag of the watches.
static WATCHES: AtomicUsize = AtomicUsize::new(0);

/// Makes the next SIGINT, SIGTERM or SIGHUP set a flag instead of ending the process.
///
/// Watches may overlap, on one thread or several. A signal reaches all existing watches. Until the
/// last of them is dropped, a further signal ends the process. Concurrent sessions without
/// [`Interrupt::Return`] also continue after the first signal while a watch exists.
///
/// A handler that the program installed earlier is still called, before mlprof's handler, and alone
/// decides the effect of a second signal. A handler that the program installs later replaces
/// mlprof's handler, unless it forwards the signal. Ignored signals stay ignored.
///
/// *Cost*: a few system calls, and one waiting thread after the first call. If the system refuses
/// them, an error is printed on standard error, and signals keep their previous effect.
pub fn watch() -> Watch {
    WATCHES.fetch_add(1, Ordering::SeqCst);
    let seen = REQUESTS.load(Ordering::SeqCst);
    Watch { seen, _part: signals::Part::take(true) }
}

/// Turns the first signal into a flag until dropped: see [`watch`].
#[must_use = "signals are handled only until this is dropped"]
#[derive(Debug)]
pub struct Watch {
    /// Number of requests before this watch began.
    seen: u64,
    _part: signals::Part,
}

impl Watch {
    /// Returns `true` if a signal has arrived since this watch began. The first watch that sees it
    /// prints a message on standard error.
    ///
    /// *Cost*: one relaxed load.
    #[inline]
    pub fn requested(&self) -> bool {
        let requests = REQUESTS.load(Ordering::Relaxed);
        let is_requested = requests != self.seen;
        if is_requested {
            announce(requests);
        }
        is_requested
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if WATCHES.fetch_sub(1, Ordering::SeqCst) == 1 {
            signals::forget_request();
        }
    }
}

/// Guard of a session that delivers a report before a signal ends the process.
#[derive(Debug)]
pub(crate) struct Terminating {
    _part: signals::Part,
}

impl Terminating {
    pub(crate) fn begin() -> Self {
        Self { _part: signals::Part::take(false) }
    }
}

/// Waits forever at the end of a stage if a signal that ends the process arrived during the stage.
pub(crate) fn end_of_stage() {
    signals::wait_for_the_end();
}

/// Prints one message per request. The signal handler cannot do this, because it must not write.
#[cold]
fn announce(request: u64) {
    // The lock is held during the write, so that other threads continue only after the message is
    // printed.
    static ANNOUNCED: Mutex<u64> = Mutex::new(0);
    let mut announced = ANNOUNCED.lock().unwrap_or_else(PoisonError::into_inner);
    if *announced < request {
        *announced = request;
        say("interrupted, finishing with a report; press Ctrl-C again to exit at once");
    }
}

fn say(text: &str) {
    crate::output::say(format_args!("mlprof: {text}"));
}
