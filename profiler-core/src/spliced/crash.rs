//! A report also when the process dies by a fault or by `abort`, as a panic under
//! `panic = "abort"` does.
//!
//! The handler does nothing but tell the thread of [`signals`](super::signals), and wait until that
//! has made the report: it may have interrupted its thread anywhere, in `malloc` as well. Then the
//! signal does what it would have done without us. If the thread that died holds a lock that the
//! report needs, the wait ends [in time](PATIENCE_MILLISECONDS), without a report.
//!
//! Whoever handled the signal before is called as ever: std, which tells of stack overflows, and
//! programs that catch faults and go on.

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use crate::interrupt::{Waiter, Wakeup, drops_signals};
use mlprof_events::forking::this_process;
use mlprof_events::run::process_record;

/// The signals by which a program dies of its own mistakes.
const SIGNALS: [libc::c_int; 5] =
    [libc::SIGABRT, libc::SIGILL, libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS];

/// Those that std handles, once `main` is about to begin, if nobody else does by then.
const OF_STD: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// A report that takes longer than this is not waited for.
const PATIENCE_MILLISECONDS: u32 = 20_000;

/// What handled the signals before, in their order.
struct Before([UnsafeCell<MaybeUninit<libc::sigaction>>; SIGNALS.len()]);

// SAFETY: a cell is written once, before the handler that reads it is installed.
unsafe impl Sync for Before {}

static BEFORE: Before = Before([const { UnsafeCell::new(MaybeUninit::zeroed()) }; SIGNALS.len()]);

/// [The process](this_process) whose report is made; 0: none. A forked child has none until it is
/// measured itself.
static PROCESS: AtomicU64 = AtomicU64::new(0);
/// Wakes the thread that makes the report.
static WAKEUP: Wakeup = Wakeup::new();
/// The thread that dies; 0: none.
static DYING: AtomicI32 = AtomicI32::new(0);
static IS_REPORTED: AtomicBool = AtomicBool::new(false);
static HANDLES_FAULTS: AtomicBool = AtomicBool::new(false);

/// What the thread waits for that makes the report.
pub(super) fn prepare() -> io::Result<Waiter> {
    WAKEUP.prepare()
}

/// Has that thread make the report of a process that `signal` ends. May be called in a handler.
pub(super) fn wake(signal: libc::c_int) -> bool {
    WAKEUP.ring(signal as u32)
}

/// Whether there is such a thread in this process. May be called in a handler.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::Acquire) == this_process()
}

/// Handles what nobody else does, once the thread is there.
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

/// Handles faults, too, if std does so by now: had we been first, it would not. With `at_last` also
/// if it does not: this is no program of Rust's. False if it is to be tried again.
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

/// Another copy of this crate makes the report.
pub(super) fn leave() {
    PROCESS.store(0, Ordering::Release);
    give_back();
}

/// Called where it is known that `main` has begun. *Cost*: one relaxed load from the second time on.
pub(super) fn main_has_begun() {
    if !HANDLES_FAULTS.load(Ordering::Relaxed) {
        watch_faults(false);
    }
}

/// Whether `signal` is one that ends the process when the report is made.
pub(super) fn is_crash(signal: libc::c_int) -> bool {
    SIGNALS.contains(&signal)
}

/// The report is made: the thread that dies may go on dying.
pub(super) fn reported() {
    IS_REPORTED.store(true, Ordering::Release);
}

/// Does not return while another thread dies: the process ends by its signal, and not by an exit
/// that happens to come meanwhile.
pub(super) fn let_die() {
    if !is_of_this_process() {
        return;
    }
    let dying = DYING.load(Ordering::Acquire);
    // It may also be the dying thread whose handler of its own exits.
    for _ in 0..PATIENCE_MILLISECONDS {
        if dying == 0 || dying == this_thread() {
            return;
        }
        sleep();
    }
}

fn this_thread() -> i32 {
    // SAFETY: it only reads.
    unsafe { libc::gettid() }
}

fn take(signal: libc::c_int) {
    let Some(cell) = before_of(signal) else { return };
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action nothing changes; `now` outlives the call. All-zero is valid.
    let now = unsafe {
        libc::sigaction(signal, ptr::null(), now.as_mut_ptr());
        now.assume_init()
    };
    if now.sa_sigaction == libc::SIG_IGN {
        return;
    }
    // SAFETY: our handler for this signal is not installed yet, so nobody reads the cell.
    unsafe { (*cell.get()).write(now) };
    let mut ours = now;
    ours.sa_sigaction = on_signal as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // The signals that samples are taken by wait until this handler is through: two handlers on top
    // of each other, each with the processor's state, are too much for the small stack that std
    // gives threads for them.
    for real_time in libc::SIGRTMIN()..=libc::SIGRTMAX() {
        // SAFETY: the set is one that the system gave.
        unsafe { libc::sigaddset(&raw mut ours.sa_mask, real_time) };
    }
    // SAFETY: the action is whole, and the handler does only what handlers may do.
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
    // SAFETY: every thread has an `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let error = unsafe { *errno };
    let Some(cell) = before_of(signal) else { return };
    // SAFETY: written before this handler was installed, and never again.
    let before = unsafe { (*cell.get()).assume_init_ref() };
    let is_handled = before.sa_sigaction != libc::SIG_DFL;
    // SAFETY: the system passes both, good for as long as the handler runs; of a signal that was
    // sent it says by whom.
    let (is_sent, is_overflow, is_others) = unsafe {
        let is_sent = (*information).si_code <= 0;
        let is_others = is_sent && (*information).si_pid() != libc::getpid();
        (is_sent, is_stack_overflow(information, context), is_others)
    };
    // The first process of a container goes on, and is measured on: without us the system drops the
    // signal.
    if is_others && !is_handled && drops_signals() {
        return;
    }
    if is_handled && !is_overflow {
        // SAFETY: it was the handler, and gets what the system would have given it.
        unsafe { call(before, signal, information, context) };
        if !crate::interrupt::is_default(signal) || (is_others && drops_signals()) {
            // SAFETY: as above.
            unsafe { *errno = error };
            return; // it knew what to do, or the system drops what it leaves to it: the program goes on
        }
    }
    report(signal);
    give_back();
    if is_handled && is_overflow {
        // SAFETY: as above. It says what has happened, and ends the process.
        unsafe { call(before, signal, information, context) };
    } else if is_sent {
        // What the program did itself happens again when this returns; what was sent does not.
        // SAFETY: sends a signal to this thread, where it waits until the handler has returned.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal) };
    }
    // SAFETY: as above.
    unsafe { *errno = error };
}

/// Whether a thread touched what lies just below its stack pointer. The report comes first then:
/// std's handler ends the process by `abort`, and two handlers, one on top of the other, are too
/// much for the stack that they run on.
///
/// # Safety
///
/// Both are what the system gave the handler.
unsafe fn is_stack_overflow(
    information: *const libc::siginfo_t,
    context: *const libc::c_void,
) -> bool {
    const NEAR: usize = 1 << 20;
    // SAFETY: by the contract of this function.
    let (code, signal) = unsafe { ((*information).si_code, (*information).si_signo) };
    if code <= 0 || !OF_STD.contains(&signal) {
        return false;
    }
    // SAFETY: a fault has an address.
    let address = unsafe { (*information).si_addr() } as usize;
    // SAFETY: by the contract of this function.
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
/// `action` is a handler that was installed for `signal`; the rest is what the system gave.
unsafe fn call(
    action: &libc::sigaction,
    signal: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    type Plain = extern "C" fn(libc::c_int);
    type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: handlers with this flag have this type.
        let handler = unsafe { std::mem::transmute::<usize, Informed>(action.sa_sigaction) };
        handler(signal, information, context);
    } else {
        // SAFETY: all others have this one.
        let handler = unsafe { std::mem::transmute::<usize, Plain>(action.sa_sigaction) };
        handler(signal);
    }
}

/// Has the report made, and waits for it.
fn report(signal: libc::c_int) {
    if !is_of_this_process() {
        return;
    }
    let is_first = DYING.compare_exchange(0, this_thread(), Ordering::AcqRel, Ordering::Acquire);
    if is_first.is_err() {
        // Another thread was first, and ends the process. (The report's own thread handles none.)
        wait_for_report();
        return;
    }
    process_record::ends_by(signal);
    if !wake(signal) || !wait_for_report() {
        const SORRY: &[u8] = b"mlprof: no report: the program died in the middle of something \
            that the report needs\n";
        // SAFETY: bytes that are there.
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
    // SAFETY: the time is good during the call, which may be made in a handler.
    unsafe { libc::nanosleep(&raw const millisecond, ptr::null_mut()) };
}

/// Everything is handled as it was before us, where nobody has come after us.
fn give_back() {
    for signal in SIGNALS {
        if crate::interrupt::handler(signal) != on_signal as *const () as usize {
            continue;
        }
        if let Some(cell) = before_of(signal) {
            // SAFETY: written before our handler was installed; the action is whole.
            unsafe { libc::sigaction(signal, (*cell.get()).as_ptr(), ptr::null_mut()) };
        }
    }
}
