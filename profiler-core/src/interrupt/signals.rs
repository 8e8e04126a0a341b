//! Our handler: when it is there, and what it does.

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

/// What asks a process to end.
const SIGNALS: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Signals that come closer to each other than this, in milliseconds, are one request.
const ONE_REQUEST: u64 = 100;

/// When the request came that is not answered yet, in milliseconds of [`now`]; 0 if there is none.
static REQUESTED_AT: AtomicU64 = AtomicU64::new(0);

/// The signal that is about to end the process; 0: none is.
static ENDING: AtomicI32 = AtomicI32::new(0);

/// A thread that waits for the end waits this much longer than the report may take, and then ends
/// the process itself.
const MARGIN: Duration = Duration::from_secs(5);

/// What the handler has to know of a signal.
struct Slot {
    signal: c_int,
    /// Address of the program's own handler, which ours stands in front of; 0 if the signal ended
    /// the process. Written only while ours is not installed.
    program: AtomicUsize,
    /// Whether that handler takes three arguments.
    takes_information: AtomicBool,
}

static SLOTS: [Slot; SIGNALS.len()] =
    [Slot::new(SIGNALS[0]), Slot::new(SIGNALS[1]), Slot::new(SIGNALS[2])];

/// Who needs the handler, and where it is.
struct Handlers {
    parts: usize,
    places: [Place; SIGNALS.len()],
}

enum Place {
    /// Not ours.
    Free,
    /// Ours, in front of what was there.
    Installed(libc::sigaction),
    /// The program has put a handler in our place, which may or may not hand on to ours. It wins,
    /// for good: with ours in front of it the two could call each other for ever.
    Taken,
}

static HANDLERS: Mutex<Handlers> =
    Mutex::new(Handlers { parts: 0, places: [Place::Free, Place::Free, Place::Free] });

impl Handlers {
    fn lock() -> MutexGuard<'static, Self> {
        HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While it lives, our handler is where it has something to do.
#[derive(Debug)]
pub(super) struct Part(());

impl Part {
    /// In front of the program's own handlers only `in_front`.
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
                Err(error) => say(&format!("signals do what they do without us: {error}")),
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

/// The last watch is over: the next signal is a first one again.
pub(super) fn forget_request() {
    REQUESTED_AT.store(0, Ordering::SeqCst);
}

/// Comes back only if no signal is about to end the process: what comes after would not have run
/// without us.
pub(super) fn wait_for_the_end() {
    let start = Instant::now();
    loop {
        let signal = ENDING.load(Ordering::SeqCst);
        if signal == 0 || !service::is_of_this_process() {
            return;
        }
        // The thread that was to end the process is stuck, or was never reached.
        if start.elapsed() > service::PATIENCE + MARGIN {
            end_by(signal);
        }
        std::thread::park_timeout(Duration::from_secs(1));
    }
}

/// Says once why no signal brings a report in this process, if one would have ended it elsewhere.
fn note_dropped() {
    static NOTED: Once = Once::new();
    if SIGNALS.iter().any(|signal| disposition(*signal).sa_sigaction == libc::SIG_DFL) {
        NOTED.call_once(|| {
            say("SIGINT, SIGTERM and SIGHUP have no effect on this process, which is number 1 of its container: a container that is \
                 stopped leaves no report; start it with an init process, as `docker run --init` does, to have one");
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
            // One that is meant to be called once would have to be gone afterwards.
            _ if !in_front || current.sa_flags & libc::SA_RESETHAND != 0 => return,
            program => {
                let takes_information = current.sa_flags & libc::SA_SIGINFO != 0;
                self.takes_information.store(takes_information, Ordering::SeqCst);
                self.program.store(program, Ordering::SeqCst);
            }
        }
        own.sa_flags |= libc::SA_SIGINFO;
        own.sa_sigaction = own_handler();
        // SAFETY: the handler keeps to what may be done in one, and the rest of the action is what
        // the system gave, or asks for nothing.
        if unsafe { libc::sigaction(self.signal, &raw const own, std::ptr::null_mut()) } == 0 {
            *place = Place::Installed(current);
        } else {
            let error = std::io::Error::last_os_error();
            say(&format!("signal {} does what it does without us: {error}", self.signal));
        }
    }

    fn restore(&self, place: &mut Place) {
        let Place::Installed(before) = place else { return };
        if is_ours(&disposition(self.signal)) {
            // SAFETY: what was there before, as the system gave it.
            unsafe { libc::sigaction(self.signal, &raw const *before, std::ptr::null_mut()) };
            *place = Place::Free;
        } else {
            *place = Place::Taken;
        }
    }

    /// Calls the program's own handler. False if there is none.
    ///
    /// # Safety
    ///
    /// Only in our handler, with what that was given.
    unsafe fn call_program(&self, information: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        type WithInformation = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        let program = self.program.load(Ordering::SeqCst);
        if program == 0 {
            return false;
        }
        if self.takes_information.load(Ordering::SeqCst) {
            // SAFETY: the address of a handler with three arguments, by the flags it came with.
            let program: WithInformation = unsafe { std::mem::transmute(program) };
            program(self.signal, information, context);
        } else {
            // SAFETY: the address of a handler, as above.
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

/// What the system does now when the signal comes.
fn disposition(signal: c_int) -> libc::sigaction {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action `sigaction` changes nothing; it fills `current`, which outlives
    // the call. All-zero is a valid `sigaction`, so it may be read even if the call fails.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), current.as_mut_ptr());
        current.assume_init()
    }
}

/// Whether a signal does what the system does with it.
#[cfg(target_os = "linux")]
pub(crate) fn is_default(signal: c_int) -> bool {
    handler(signal) == libc::SIG_DFL
}

/// The address of what handles a signal now.
#[cfg(target_os = "linux")]
pub(crate) fn handler(signal: c_int) -> usize {
    disposition(signal).sa_sigaction
}

/// What the system calls. Does nothing but what may be done in a handler.
extern "C" fn handle(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    keeping_errno(|| {
        if let Some(slot) = Slot::of(signal) {
            // SAFETY: this is our handler, and these are its arguments.
            let program_decides = unsafe { slot.call_program(information, context) };
            // A handler that came after ours has handed on to it, and decides, too.
            answer(signal, program_decides || !is_ours(&disposition(signal)));
        }
    });
}

fn answer(signal: c_int, program_decides: bool) {
    let is_watched = WATCHES.load(Ordering::SeqCst) > 0;
    // Without a watch the signal does what it does without us: nothing, where the system drops it.
    if !is_watched && (program_decides || drops_signals()) {
        return;
    }
    if !service::is_of_this_process() {
        // A forked child has neither loop nor thread that would do something about it.
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

/// Milliseconds of a clock that nobody sets; never 0.
fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the time. May be called in a handler.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000).max(1)
}
