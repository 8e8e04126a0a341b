//! Start-up: from the start of the process to its first action, and how much of that was before
//! `main`, where shared libraries such as libtorch are loaded.
//!
//! On Linux the first report of a process says it in the rows [`PROCESS_STARTUP`] and
//! [`PROCESS_STARTUP_BEFORE_MAIN`] and in its header's `startup`.
//! Other systems have no such rows.
//!
//! *What is measured*: wall time, on a clock that goes on while the machine sleeps. It ends when
//! any thread starts an action with one of our profilers for the first time. It is not part of any
//! stage's wall time. A program that runs for an hour before its first action has a start-up of an
//! hour.
//!
//! *How exactly*: the kernel gives the start of a process in steps of its clock tick, 10 ms as a
//! rule, rounded down: both durations may be that much too long.
//!
//! *Before `main`* means until the initialisers of all shared libraries that the program is linked
//! to have run. Where this crate is part of a shared library that is loaded later, until then.
//!
//! *`cargo run`* does not start the program, it turns into it (`exec`), and Linux keeps the start
//! of the process that cargo was. So under `cargo run` start-up is counted from `main`, and the
//! part before is not known; start `target/release/…` itself to see it. Another program that works
//! for long before it turns into the measured one cannot be told from it, and is counted.
//!
//! A process whose start is not known has no rows: a forked child of a program that had reached
//! `main`, a restored checkpoint, a system without `/proc`.
//!
//! *Which report*: that of the stage in which the process's **main thread** starts its first
//! action, or the report without a stage if that comes before any. Later stages and other
//! profilers do not have it; a program whose main thread starts no action asks
//! [`process_startup`]. So tests, which do not run on the main thread, see the same rows whichever
//! of them runs first.
//!
//! *Cost*: one reading of a clock before `main`; some 50 µs once per process, before the first
//! action.

#[cfg(target_os = "linux")]
mod linux;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::forking::apart_from_forks;
use crate::process_id;

/// The row of the whole start-up. Its self time is what came after [the part before
/// `main`](PROCESS_STARTUP_BEFORE_MAIN).
pub const PROCESS_STARTUP: &str = "process_startup";
/// The row of the part before `main`.
pub const PROCESS_STARTUP_BEFORE_MAIN: &str = "process_startup_before_main";

/// How long the process took to its first action; see the [module](self) for what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStartup {
    /// From the start of the process to the first action; from `main` where `before_main` is
    /// `None`.
    pub total: Duration,
    /// The part of `total` before `main`; `None` where it is not known.
    pub before_main: Option<Duration>,
}

struct Noted {
    process: u32,
    startup: Option<ProcessStartup>,
}

static FIRST_ACTION: OnceLock<Noted> = OnceLock::new();

/// How long start-up took. `None` before the first action, where it is not known, and on other
/// systems than Linux. *Cost*: a load and a system call.
///
/// ```
/// use mlprof_core::startup::process_startup;
/// use mlprof_core::{ProfilerExt, SimpleProfiler};
///
/// assert_eq!(process_startup(), None, "no action has started yet");
/// drop(SimpleProfiler::new().profile("load_data"));
/// if let Some(startup) = process_startup() {
///     println!("{:?} until the first action", startup.total);
/// }
/// ```
pub fn process_startup() -> Option<ProcessStartup> {
    let noted = FIRST_ACTION.get()?;
    // A forked child has its parent's memory, but not its parent's start.
    noted.startup.filter(|_| noted.process == process_id())
}

/// Ends start-up now, if no action has ended it before. For profilers of your own, at their first
/// `start`; ours do it themselves. *Cost*: some 50 µs the first time, then a load.
pub fn note_first_action() {
    if FIRST_ACTION.get().is_some() {
        return;
    }
    apart_from_forks(|| {
        FIRST_ACTION.get_or_init(|| Noted { process: process_id(), startup: measure() })
    });
}

/// The start-up for the one report of the process that shows it. For the calling thread's session,
/// in which it has just started its first action.
pub fn claim() -> Option<ProcessStartup> {
    static IS_CLAIMED: AtomicBool = AtomicBool::new(false);
    // Unit tests are many in one process, and some people run them on the main thread.
    if cfg!(test) || !is_main_thread() || IS_CLAIMED.swap(true, Ordering::Relaxed) {
        return None;
    }
    process_startup()
}

#[cfg(target_os = "linux")]
pub use linux::name_of_system_thread;
#[cfg(target_os = "linux")]
use linux::{is_main_thread, measure};

#[cfg(not(target_os = "linux"))]
fn measure() -> Option<ProcessStartup> {
    None
}

#[cfg(not(target_os = "linux"))]
fn is_main_thread() -> bool {
    false
}

/// What the system calls the calling thread: not known here.
#[cfg(not(target_os = "linux"))]
pub fn name_of_system_thread() -> Option<String> {
    None
}
