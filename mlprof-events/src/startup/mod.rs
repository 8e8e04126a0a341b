//! Start-up time: from the start of the process to its first action. It includes the part before
//! `main`, in which shared libraries such as libtorch are loaded.
//!
//! On Linux the first report of a process shows it in the rows [`PROCESS_STARTUP`] and
//! [`PROCESS_STARTUP_BEFORE_MAIN`] and in its header's `startup`. Other systems do not have these
//! rows.
//!
//! *Measured quantity*: wall time, on a clock that also runs while the machine is suspended.
//! Start-up ends when any thread starts the first action with one of our profilers. It is not part
//! of any stage's wall time. If a program runs for an hour before its first action, its start-up
//! takes an hour.
//!
//! *Precision*: the kernel reports the start of a process in clock ticks, usually 10 ms, rounded
//! down. Both durations may be too long by that much.
//!
//! *Before `main`* means until the initialisers of all shared libraries that the program is linked
//! to have run. If this crate is part of a shared library that is loaded later, it means until that
//! library is loaded.
//!
//! *`cargo run`* does not start the program but replaces itself with it (`exec`), and Linux keeps
//! the start time of the cargo process. Under `cargo run` start-up is therefore counted from
//! `main`, and the part before is unknown. Start `target/release/…` directly to measure it. Any
//! other program that runs for a long time before such an `exec` cannot be detected, and its time
//! is counted.
//!
//! The rows are missing if the start time of the process is unknown. Examples are a forked child of
//! a program that had reached `main`, a restored checkpoint, or a system without `/proc`.
//!
//! *Report*: the rows are in the report of the stage in which the **main thread** of the process
//! starts its first action. If that happens before any stage, they are in the report without a
//! stage. Later stages and other profilers do not show them. If the main thread starts no action,
//! the program can call [`process_startup`]. Tests do not run on the main thread, so their rows do
//! not depend on their order.
//!
//! *Cost*: one clock reading before `main`, and about 50 µs once per process, before the first
//! action.

#[cfg(target_os = "linux")]
mod linux;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::forking::apart_from_forks;
use crate::process_id;

/// Name of the row for the whole start-up. Its self time is the part after [the one before
/// `main`](PROCESS_STARTUP_BEFORE_MAIN).
pub const PROCESS_STARTUP: &str = "process_startup";
/// Name of the row for the part before `main`.
pub const PROCESS_STARTUP_BEFORE_MAIN: &str = "process_startup_before_main";

/// Duration from the start of the process to its first action; see the [module](self) for the exact
/// definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStartup {
    /// Duration from the start of the process to the first action, or from `main` if `before_main`
    /// is `None`.
    pub total: Duration,
    /// Part of `total` before `main`; `None` if unknown.
    pub before_main: Option<Duration>,
}

struct Noted {
    process: u32,
    startup: Option<ProcessStartup>,
}

static FIRST_ACTION: OnceLock<Noted> = OnceLock::new();

/// Returns the start-up time. Returns `None` before the first action, if it is unknown, and on
/// systems other than Linux. *Cost*: a load and a system call.
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
    // A forked child has a copy of its parent's memory, but a different start time.
    noted.startup.filter(|_| noted.process == process_id())
}

/// Ends start-up now, if no action has ended it before. Custom profilers call it at their first
/// `start`; mlprof's own do it themselves. *Cost*: about 50 µs the first time, then a load.
pub fn note_first_action() {
    if FIRST_ACTION.get().is_some() {
        return;
    }
    apart_from_forks(|| {
        FIRST_ACTION.get_or_init(|| Noted { process: process_id(), startup: measure() })
    });
}

/// Returns the start-up time for the one report of the process that shows it, to the first caller
/// on the main thread. The session of the calling thread calls it after the thread has started its
/// first action.
pub fn claim() -> Option<ProcessStartup> {
    static IS_CLAIMED: AtomicBool = AtomicBool::new(false);
    // Unit tests share one process and may run on the main thread.
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

/// Returns `None`, because the name is not available on this system.
#[cfg(not(target_os = "linux"))]
pub fn name_of_system_thread() -> Option<String> {
    None
}
