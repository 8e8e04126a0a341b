//! What a signal does to a program that is measured: Ctrl-C (SIGINT), SIGTERM and SIGHUP.
//!
//! **A profiler changes nothing about it, but for the report that comes first.** A signal that ends
//! the process without a profiler ends it with one: every [`Session`](crate::Session) that is open
//! delivers its report, at once and from a thread of ours, while the program goes on where it is;
//! then the process ends by that same signal, so that a shell, `make` or a job scheduler sees what
//! it would have seen. Nothing that comes after a training runs any more: a stage that is through
//! meanwhile waits for the process's end. What the program's threads do at that moment does not
//! matter: they may train several models, hang in a step, or, as a main thread may, wait for
//! something that never comes. What was begun and is not over is in the report, too.
//!
//! | the program | a signal |
//! |---|---|
//! | leaves signals alone | the report, then the process ends by the signal |
//! | has a handler of its own, from whenever | only that handler; the report comes when the stage ends |
//! | ignores it, as under `nohup` or in the background of a shell | nothing happens |
//! | asked for [`Interrupt::Return`] | the stage ends after its batch, says so, and the program goes on |
//! | has no session open, or one without a profiler | as ever |
//! | is number 1 of its container | as ever: nothing happens, for the system drops the signal; standard error says so |
//!
//! A second signal ends the process at once, whatever the first one led to. Two within a tenth of a
//! second are one: `timeout` sends its signal twice, and so does a terminal that is closed. A report
//! that cannot be delivered within a minute (nobody reads standard output, or a thread has locked it
//! for good) is given up, and the process ends.
//!
//! Handlers of ours are there only while somebody needs them; then the one that was there before
//! comes back. A child process that is forked meanwhile ends by a signal as it would without us,
//! and delivers no report of its parent's, whatever way it ends.
//!
//! *Process 1 of a container* (`docker run` without `--init`): the system drops a signal that has no handler
//! there, so no handler of ours is installed for the report's sake, and a training goes on as it does without
//! a profiler. A [`watch`] and [`Interrupt::Return`] work as everywhere: the first signal sets the flag,
//! the second one ends the process, with the exit code 128 + its number.
//!
//! Who wants to end politely in a loop of their own [watches](watch):
//!
//! ```
//! let watch = mlprof_core::interrupt::watch();
//! for step in 0..3 {
//!     if watch.requested() {
//!         break;
//!     }
//!     // … train …
//! }
//! drop(watch); // from here on Ctrl-C ends the process again
//! ```
//!
//! *On Windows* there are only watches, for Ctrl-C, and [`Interrupt::Return`]; otherwise the process
//! ends without a report. *On WebAssembly* there are no signals, and a watch never sees a request.

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

/// What a signal that would end the process does to a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Interrupt {
    /// It ends the process, as it does without a profiler. The report comes first.
    #[default]
    Terminate,
    /// The first one ends the stage after the running batch, with its report; the stage says that it
    /// was interrupted, and the program goes on. The second one ends the process at once.
    Return,
}

/// How many signals have asked for an end.
static REQUESTS: AtomicU64 = AtomicU64::new(0);
/// How many watches there are. Above 0, the first signal is theirs.
static WATCHES: AtomicUsize = AtomicUsize::new(0);

/// Asks that the first SIGINT, SIGTERM or SIGHUP from here on sets a flag instead of ending the
/// process.
///
/// Watches may overlap, on one thread or on several: a signal reaches all that are alive, and after
/// it the next one ends the process until the last of them is dropped. While a watch is alive
/// sessions beside it that did not ask for [`Interrupt::Return`] go on, too.
///
/// A handler that the program installed before is still called, first, and then decides alone what
/// a second signal does; one that it installs later takes our place, unless it hands on. Ignored
/// signals stay ignored.
///
/// *Cost*: a few system calls, and the first time a thread that waits. Where the system refuses
/// them, that is said on standard error, and signals do what they did before.
pub fn watch() -> Watch {
    WATCHES.fetch_add(1, Ordering::SeqCst);
    let seen = REQUESTS.load(Ordering::SeqCst);
    Watch { seen, _part: signals::Part::take(true) }
}

/// Turns the first signal into a flag while it is alive; see [`watch`].
#[must_use = "signals are watched for only until this is dropped"]
#[derive(Debug)]
pub struct Watch {
    /// How many requests there were before it began.
    seen: u64,
    _part: signals::Part,
}

impl Watch {
    /// Whether a signal has come since this watch began. The first one to see it says so on
    /// standard error.
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

/// The part of a session that reports before a signal ends the process.
#[derive(Debug)]
pub(crate) struct Terminating {
    _part: signals::Part,
}

impl Terminating {
    pub(crate) fn begin() -> Self {
        Self { _part: signals::Part::take(false) }
    }
}

/// The end of a stage, which a signal that came during it does not let the program go beyond.
pub(crate) fn end_of_stage() {
    signals::wait_for_the_end();
}

/// Says once for each request that it was heard. Not in the signal handler, which may not write.
#[cold]
fn announce(request: u64) {
    // Held while it writes: whoever has seen a request goes on when the note is there.
    static ANNOUNCED: Mutex<u64> = Mutex::new(0);
    let mut announced = ANNOUNCED.lock().unwrap_or_else(PoisonError::into_inner);
    if *announced < request {
        *announced = request;
        say("interrupted, finishing with a report; a second Ctrl-C leaves at once");
    }
}

fn say(text: &str) {
    crate::output::say(format_args!("mlprof: {text}"));
}
