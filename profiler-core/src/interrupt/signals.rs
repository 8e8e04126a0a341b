//! Installation and behaviour of mlprof's signal handler.

use std::mem::MaybeUninit;
use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

use super::end::{drops_signals, end_by};
use super::service::{self, Task};
use super::{REQUESTS, WATCHES, say};
use mlprof_events::errno::keeping_errno;
use mlprof_events::forking::apart_from_forks;

/// Signals that request the end of a process.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Signals at most this many milliseconds apart count as one request.
const ONE_REQUEST: u64 = 100;

/// Time of the unanswered request in milliseconds of [`now`], or 0 if there is none.
static REQUESTED_AT: AtomicU64 = AtomicU64::new(0);

/// Signal that is about to end the process, or 0 if there is none.
static ENDING: AtomicI32 = AtomicI32::new(0);

/// Extra waiting time after the limit for reports. A thread that waits for the end then ends the
/// process itself.
const MARGIN: Duration = Duration::from_secs(5);

/// Data that the handler needs for one signal.
struct Slot {
    signal: c_int,
    /// Address of the program's own handler, which mlprof's handler calls first, or 0 if the signal
    /// ended the process. It is written only while mlprof's handler is not installed.
    program: AtomicUsize,
    /// Set if the program's handler takes three arguments (`SA_SIGINFO`).
    takes_information: AtomicBool,
}

static SLOTS: [Slot; SIGNALS.len()] =
    [Slot::new(SIGNALS[0]), Slot::new(SIGNALS[1]), Slot::new(SIGNALS[2])];

/// Number of users of the handler, and its state for each signal.
struct Handlers {
    parts: usize,
    places: [Place; SIGNALS.len()],
}

enum Place {
    /// mlprof's handler is not installed.
    Free,
    /// mlprof's handler is installed in front of the previous action.
    Installed(libc::sigaction),
    /// The program has replaced mlprof's handler. Its handler may or may not call mlprof's. mlprof
    /// never installs in front of it again, because the two could then call each other forever.
    Taken,
}

static HANDLERS: Mutex<Handlers> =
    Mutex::new(Handlers { parts: 0, places: [Place::Free, Place::Free, Place::Free] });

impl Handlers {
    fn lock() -> MutexGuard<'static, Self> {
        HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps mlprof's handler installed where needed, until dropped.
#[derive(Debug)]
pub(super) struct Part(());

impl Part {
    /// Installs the handler. It goes in front of the program's own handlers only if `in_front` is
    /// `true`.
    pub(super) fn take(in_front: bool) -> Self {
        apart_from_forks(|| {
            let mut handlers = Handlers::lock();
            handlers.parts += 1;
            if !in_front && drops_signals() {
                return note_dropped();
            }
            match service::start() {
                Ok(()) => {
                    for (slot, place) in SLOTS.iter().zip(&mut handlers.places) {
                        slot.install(place, in_front);
                    }
                }
                Err(error) => say(&format!(
                    "cannot handle signals: {error}; an interrupted process \
                                            leaves no report"
                )),
            }
        });
        Self(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        apart_from_forks(|| {
            let mut handlers = Handlers::lock();
            handlers.parts -= 1;
            if handlers.parts == 0 {
                for (slot, place) in SLOTS.iter().zip(&mut handlers.places) {
                    slot.restore(place);
                }
            }
        });
    }
}

/// Makes the next signal a first request again, because the last watch is gone.
pub(super) fn forget_request() {
    REQUESTED_AT.store(0, Ordering::SeqCst);
}

/// Returns only if no signal is about to end the process. Without mlprof, the code after this call
/// would not have run either.
pub(super) fn wait_for_the_end() {
    let start = Instant::now();
    loop {
        let signal = ENDING.load(Ordering::SeqCst);
        if signal == 0 || !service::is_of_this_process() {
            return;
        }
        // The thread that should end the process is stuck, or the handler could not wake it.
        if start.elapsed() > service::PATIENCE + MARGIN {
            end_by(signal);
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }
}

/// Prints one note for the process if a signal would deliver a report and end it, but the system
/// drops signals here.
fn note_dropped() {
    static NOTED: Once = Once::new();
    if SIGNALS.iter().any(|signal| disposition(*signal).sa_sigaction == libc::SIG_DFL) {
        NOTED.call_once(|| {
            say("SIGINT, SIGTERM and SIGHUP have no effect on this process, which is number 1 of \
                 its container, so a stopped container leaves no report; start it with an init \
                 process (`docker run --init`)");
        });
    }
}

impl Slot {
    const fn new(signal: c_int) -> Self {
        Self { signal, program: AtomicUsize::new(0), takes_information: AtomicBool::new(false) }
    }

    fn of(signal: c_int) -> Option<&'static Self> {
        SLOTS.iter().find(|slot| slot.signal == signal)
    }

    fn install(&self, place: &mut Place, in_front: bool) {
        let current = disposition(self.signal);
        let mut own = current;
        match current.sa_sigaction {
            _ if is_ours(&current) => return,
            libc::SIG_IGN => return,
            libc::SIG_DFL => {
                own.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
                self.program.store(0, Ordering::SeqCst);
            }
            _ if !matches!(place, Place::Free) => return *place = Place::Taken,
            // A handler with `SA_RESETHAND` is meant to run once and would have to be removed
            // afterwards.
            _ if !in_front || current.sa_flags & libc::SA_RESETHAND != 0 => return,
            program => {
                let takes_information = current.sa_flags & libc::SA_SIGINFO != 0;
                self.takes_information.store(takes_information, Ordering::SeqCst);
                self.program.store(program, Ordering::SeqCst);
            }
        }
        own.sa_flags |= libc::SA_SIGINFO;
        own.sa_sigaction = own_handler();
        // SAFETY: both pointers are valid. `own` contains only flags and a mask from the system or
        // zeros, and a handler with the signature that `SA_SIGINFO` requires. That handler is
        // async-signal-safe.
        if unsafe { libc::sigaction(self.signal, &raw const own, std::ptr::null_mut()) } == 0 {
            *place = Place::Installed(current);
        } else {
            let error = std::io::Error::last_os_error();
            say(&format!(
                "cannot handle signal {}: {error}; it keeps its default effect",
                self.signal
            ));
        }
    }

    fn restore(&self, place: &mut Place) {
        let Place::Installed(before) = place else { return };
        if is_ours(&disposition(self.signal)) {
            // SAFETY: `before` is the previous action as returned by the system.
            unsafe { libc::sigaction(self.signal, &raw const *before, std::ptr::null_mut()) };
            *place = Place::Free;
        } else {
            *place = Place::Taken;
        }
    }

    /// Calls the program's own handler. Returns `false` if there is none.
    ///
    /// # Safety
    ///
    /// It may only be called inside mlprof's handler, with the arguments of that handler.
    unsafe fn call_program(&self, information: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        type WithInformation = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        let program = self.program.load(Ordering::SeqCst);
        if program == 0 {
            return false;
        }
        if self.takes_information.load(Ordering::SeqCst) {
            // SAFETY: `program` is the non-null address of a handler that was installed with
            // `SA_SIGINFO`, so it takes three arguments.
            let program: WithInformation = unsafe { std::mem::transmute(program) };
            program(self.signal, information, context);
        } else {
            // SAFETY: `program` is the non-null address of a handler that was installed without
            // `SA_SIGINFO`, so it takes one argument.
            let program: extern "C" fn(c_int) = unsafe { std::mem::transmute(program) };
            program(self.signal);
        }
        true
    }
}

fn own_handler() -> usize {
    handle as *const () as usize
}

fn is_ours(action: &libc::sigaction) -> bool {
    action.sa_sigaction == own_handler()
}

/// Returns the current action of a signal.
fn disposition(signal: c_int) -> libc::sigaction {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, `sigaction` only fills `current`, which outlives the call.
    // All-zero is a valid `sigaction`, so it may be read even if the call fails.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), current.as_mut_ptr());
        current.assume_init()
    }
}

/// Returns `true` if a signal has its default action.
#[cfg(target_os = "linux")]
pub(crate) fn is_default(signal: c_int) -> bool {
    handler(signal) == libc::SIG_DFL
}

/// Returns the address of a signal's current handler.
#[cfg(target_os = "linux")]
pub(crate) fn handler(signal: c_int) -> usize {
    disposition(signal).sa_sigaction
}

/// Handles a signal on behalf of the system. It only calls async-signal-safe functions.
extern "C" fn handle(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    keeping_errno(|| {
        if let Some(slot) = Slot::of(signal) {
            // SAFETY: this is mlprof's handler, and these are its arguments.
            let program_decides = unsafe { slot.call_program(information, context) };
            // A handler that was installed after mlprof's may have forwarded the signal, and then
            // decides as well.
            answer(signal, program_decides || !is_ours(&disposition(signal)));
        }
    });
}

fn answer(signal: c_int, program_decides: bool) {
    let is_watched = WATCHES.load(Ordering::SeqCst) > 0;
    // Without a watch, mlprof does not respond if the program's handler decides, or if the system
    // drops the signal anyway.
    if !is_watched && (program_decides || drops_signals()) {
        return;
    }
    if !service::is_of_this_process() {
        // A forked child has neither a training loop nor a thread that would respond to the
        // request.
        if !program_decides {
            end_by(signal);
        }
        return;
    }
    let now = now();
    let before = REQUESTED_AT.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
    match before {
        Ok(_) if is_watched => {
            REQUESTS.fetch_add(1, Ordering::SeqCst);
            service::wake(Task::Announce);
        }
        Ok(_) => {
            ENDING.store(signal, Ordering::SeqCst);
            if !service::wake(Task::End(signal)) {
                end_by(signal);
            }
        }
        Err(first) if now.saturating_sub(first) < ONE_REQUEST || program_decides => {}
        Err(_) => end_by(signal),
    }
}

/// Returns the monotonic time in milliseconds, which is never 0.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid local `timespec` that the call fills. The function is
    // async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000).max(1)
}
