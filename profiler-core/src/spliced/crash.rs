//! Report on a crash: the process ends by a fault or by `abort`, for example after a panic under
//! `panic = "abort"`.
//!
//! The handler may have interrupted its thread anywhere, even in `malloc`. It only wakes the thread
//! of [`signals`](super::signals) and waits until that thread has made the report. After that, the
//! signal has the effect that it would have without the profiler. If the crashing thread holds a
//! lock that the report needs, the wait ends [after a timeout](PATIENCE_MILLISECONDS), without a
//! report.
//!
//! Previously installed handlers are still called. Examples are the handler of std, which reports
//! stack overflows, and handlers of programs that recover from faults.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use crate::interrupt::{Waiter, Wakeup, drops_signals};
use mlprof_events::forking::this_process;
use mlprof_events::run::process_record;

/// Signals that are raised by a program's own faults.
const SIGNALS: [libc::c_int; 5] =
    [libc::SIGABRT, libc::SIGILL, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS];

/// Signals that std handles shortly before `main`, unless another handler is installed by then.
const OF_STD: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Maximum wait for the report in milliseconds.
const PATIENCE_MILLISECONDS: u32 = 20_000;

/// Previous handlers of the signals, in the order of [`SIGNALS`].
struct PreviousHandlers([UnsafeCell<MaybeUninit<libc::sigaction>>; SIGNALS.len()]);

// SAFETY: a cell is written before the handler that reads it is installed, and is not written while
// that handler is installed.
unsafe impl Sync for PreviousHandlers {}

static BEFORE: PreviousHandlers =
    PreviousHandlers([const { UnsafeCell::new(MaybeUninit::zeroed()) }; SIGNALS.len()]);

/// [Process](this_process) for which reports are made, or 0 for none. A forked child has none until
/// it is measured itself.
static PROCESS: AtomicU64 = AtomicU64::new(0);
/// Wakes the thread that makes the report.
static WAKEUP: Wakeup = Wakeup::new();
/// Id of the crashing thread, or 0 for none.
static DYING: AtomicI32 = AtomicI32::new(0);
static IS_REPORTED: AtomicBool = AtomicBool::new(false);
static HANDLES_FAULTS: AtomicBool = AtomicBool::new(false);

/// Returns the waiter for the thread that makes the report.
pub(super) fn prepare() -> io::Result<Waiter> {
    WAKEUP.prepare()
}

/// Wakes that thread to report that `signal` ends the process. Async-signal-safe.
pub(super) fn wake(signal: libc::c_int) -> bool {
    WAKEUP.ring(signal as u32)
}

/// Returns `true` if this process has such a thread. Async-signal-safe.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::Acquire) == this_process()
}

/// Installs handlers for the signals that have none, after the thread has started.
pub(super) fn watch() {
    DYING.store(0, Ordering::Relaxed);
    IS_REPORTED.store(false, Ordering::Relaxed);
    PROCESS.store(this_process(), Ordering::Release);
    for signal in SIGNALS.into_iter().filter(|signal| !OF_STD.contains(signal)) {
        if crate::interrupt::is_default(signal) {
            take(signal);
        }
    }
}

/// Installs handlers for faults, too, once std has installed its own. If these handlers came first,
/// std would not install any. With `at_last` they are installed in any case, because the program
/// may not be a Rust program. Returns `false` if the caller must try again.
pub(super) fn watch_faults(at_last: bool) -> bool {
    if !is_of_this_process() {
        return false;
    }
    let is_default = |signal: &libc::c_int| crate::interrupt::is_default(*signal);
    if !at_last && OF_STD.iter().any(is_default) {
        return false;
    }
    if !HANDLES_FAULTS.swap(true, Ordering::Relaxed) {
        OF_STD.into_iter().for_each(take);
    }
    true
}

/// Stops the handling, because another copy of this crate makes the report.
pub(super) fn leave() {
    PROCESS.store(0, Ordering::Release);
    give_back();
}

/// Notes that `main` has begun. *Cost*: one relaxed load from the second call on.
pub(super) fn main_has_begun() {
    if !HANDLES_FAULTS.load(Ordering::Relaxed) {
        watch_faults(false);
    }
}

/// Returns `true` if `signal` ends the process after the report.
pub(super) fn is_crash(signal: libc::c_int) -> bool {
    SIGNALS.contains(&signal)
}

/// Notes that the report is complete, so that the crashing thread may continue.
pub(super) fn reported() {
    IS_REPORTED.store(true, Ordering::Release);
}

/// Blocks while another thread crashes, so that the process ends by its signal and not by a
/// concurrent exit.
pub(super) fn let_die() {
    if !is_of_this_process() {
        return;
    }
    let dying = DYING.load(Ordering::Acquire);
    // The caller may also be the crashing thread, if a handler of the program exits.
    for _ in 0..PATIENCE_MILLISECONDS {
        if dying == 0 || dying == this_thread() {
            return;
        }
        sleep();
    }
}

fn this_thread() -> i32 {
    // SAFETY: `gettid` has no preconditions.
    unsafe { libc::gettid() }
}

fn take(signal: libc::c_int) {
    let Some(cell) = before_of(signal) else { return };
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `now` is a local `sigaction`, so the pointer is valid for writes. Without a new
    // action the call has no effect. If the call fails, `now` stays all-zero, which is a valid
    // value.
    let now = unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    if now.sa_sigaction == libc::SIG_IGN {
        return;
    }
    // SAFETY: the profiler's handler for this signal is not installed, so no other code reads the
    // cell.
    unsafe { (*cell.get()).write(now) };
    let mut ours = now;
    ours.sa_sigaction = on_signal as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // Real-time signals, which take samples, are blocked during this handler. Two nested handlers,
    // each with the processor's state, are too large for the small signal stack that std gives
    // threads.
    for real_time in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the set was filled by the system or is all-zero, and both are valid.
        unsafe { libc::sigaddset(&raw mut ours.sa_mask, real_time) };
    }
    // SAFETY: the action is fully initialised, and `on_signal` has the signature for `SA_SIGINFO`
    // and is async-signal-safe.
    unsafe { libc::sigaction(signal, &raw const ours, ptr::null_mut()) };
}

fn before_of(signal: libc::c_int) -> Option<&'static UnsafeCell<MaybeUninit<libc::sigaction>>> {
    let index = SIGNALS.iter().position(|known| *known == signal)?;
    BEFORE.0.get(index)
}

unsafe extern "C" fn on_signal(
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: `__errno_location` has no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer refers to this thread's `errno`, which is initialised.
    let error = unsafe { *errno };
    let Some(cell) = before_of(signal) else { return };
    // SAFETY: the cell was written before this handler was installed, and is not written while it
    // is installed.
    let before = unsafe { (*cell.get()).assume_init_ref() };
    let is_handled = before.sa_sigaction != libc::SIG_DFL;
    // SAFETY: the system passes valid pointers that live as long as the handler runs. `si_pid` is
    // read only for a sent signal, for which the system sets the sender.
    let (is_sent, is_overflow, is_others) = unsafe {
        let is_sent = (*information).si_code <= 0;
        let is_others = is_sent && (*information).si_pid() != libc::getpid();
        (is_sent, is_stack_overflow(information, context), is_others)
    };
    // The system drops this signal for the first process of a container, which continues and stays
    // measured.
    if is_others && !is_handled && drops_signals() {
        return;
    }
    if is_handled && !is_overflow {
        // SAFETY: this is the previous handler, and it receives the arguments that the system
        // passed.
        unsafe { call(before, signal, information, context) };
        if !crate::interrupt::is_default(signal) || (is_others && drops_signals()) {
            // SAFETY: the pointer refers to this thread's `errno`.
            unsafe { *errno = error };
            return; // the handler recovered, or the system drops the signal
        }
    }
    report(signal);
    give_back();
    if is_handled && is_overflow {
        // SAFETY: this is the previous handler, and it receives the arguments that the system
        // passed. It reports the overflow and ends the process.
        unsafe { call(before, signal, information, context) };
    } else if is_sent {
        // A fault happens again when this handler returns. A sent signal does not, so it is sent
        // again.
        //
        // SAFETY: the call sends a signal to this thread. The signal stays pending until the
        // handler has returned.
        //
        // SAFETY: the call sends a signal to this thread. The signal stays pending until the
        // handler has returned.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
    }
    // SAFETY: the pointer refers to this thread's `errno`.
    unsafe { *errno = error };
}

/// Returns `true` if a thread touched memory just below its stack pointer. The report must be made
/// first in this case, because std's handler ends the process by `abort`. Two nested handlers are
/// too large for the signal stack.
///
/// # Safety
///
/// Both pointers must be the arguments that the system passed to the handler.
unsafe fn is_stack_overflow(
    information: *const libc::siginfo_t,
    context: *const libc::c_void,
) -> bool {
    const NEAR: usize = 1 << 20;
    // SAFETY: the caller guarantees that `information` is valid.
    let (code, signal) = unsafe { ((*information).si_code, (*information).si_signo) };
    if code <= 0 || !OF_STD.contains(&signal) {
        return false;
    }
    // SAFETY: the signal is a fault, for which the system sets an address.
    let address = unsafe { (*information).si_addr() } as usize;
    // SAFETY: the caller guarantees that `context` points to the `ucontext_t` of the handler.
    let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    let stack = machine.gregs[libc::REG_RSP as usize] as usize;
    #[cfg(target_arch = "aarch64")]
    let stack = machine.sp as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let stack = {
        let _ = machine;
        0_usize
    };
    address < stack.saturating_add(4096) && address >= stack.saturating_sub(NEAR)
}

/// # Safety
///
/// `action` must be a handler that was installed for `signal`. The pointers must be the arguments
/// that the system passed.
unsafe fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    type Plain = extern "C" fn(libc::c_int);
    type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: `SA_SIGINFO` handlers have this signature.
        let handler = unsafe { std::mem::transmute::<usize, Informed>(action.sa_sigaction) };
        handler(signal, information, context);
    } else {
        // SAFETY: handlers without `SA_SIGINFO` have this signature.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(action.sa_sigaction) };
        handler(signal);
    }
}

/// Wakes the reporting thread and waits for the report.
fn report(signal: libc::c_int) {
    if !is_of_this_process() {
        return;
    }
    let is_first = DYING.compare_exchange(0, this_thread(), Ordering::AcqRel, Ordering::Acquire);
    if is_first.is_err() {
        // Another thread crashed first and ends the process. The reporting thread itself handles no
        // crash signal.
        wait_for_report();
        return;
    }
    process_record::ends_by(signal);
    if !wake(signal) || !wait_for_report() {
        const SORRY: &[u8] = b"mlprof: cannot make a report: the program crashed while it held \
                               data that the report needs\n";
        // SAFETY: `SORRY` is a static byte slice, and the length is its own.
        unsafe { libc::write(libc::STDERR_FILENO, SORRY.as_ptr().cast(), SORRY.len()) };
    }
}

fn wait_for_report() -> bool {
    for _ in 0..PATIENCE_MILLISECONDS {
        if IS_REPORTED.load(Ordering::Acquire) {
            return true;
        }
        sleep();
    }
    false
}

fn sleep() {
    let millisecond = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: the pointer refers to a local `timespec`, and the second pointer may be null.
    // `nanosleep` is async-signal-safe.
    unsafe { libc::nanosleep(&raw const millisecond, ptr::null_mut()) };
}

/// Restores the previous handlers, except where another handler has replaced the profiler's.
fn give_back() {
    for signal in SIGNALS {
        if crate::interrupt::handler(signal) != on_signal as *const () as usize {
            continue;
        }
        if let Some(cell) = before_of(signal) {
            // SAFETY: the cell was written before the handler was installed, so it holds a complete
            // action.
            unsafe { libc::sigaction(signal, (*cell.get()).as_ptr(), ptr::null_mut()) };
        }
    }
}
