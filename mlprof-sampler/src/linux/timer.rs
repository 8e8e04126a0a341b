//! Timers and clocks of threads, and the signal that timers send.

use std::io;
use std::ptr;

use super::slot::Slot;
use crate::SamplerError;

/// The signal of the handler, with its previous disposition.
pub(super) struct Signal {
    pub(super) number: libc::c_int,
    handler: Handler,
    before: libc::sigaction,
}

/// Type of a signal handler.
pub(super) type Handler =
    unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn system(what: &'static str) -> SamplerError {
    SamplerError::System { what, source: io::Error::last_os_error() }
}

impl Signal {
    /// Takes a real-time signal that the program does not use.
    pub(super) fn take(handler: Handler) -> Result<Self, SamplerError> {
        // The highest signal is skipped, because valgrind uses it.
        let candidates = (libc::SIGRTMIN()..libc::SIGRTMAX()).rev();
        let free = candidates.filter_map(|number| {
            let before = disposition(number)?;
            (before.sa_sigaction == libc::SIG_DFL).then_some((number, before))
        });
        let what = "take a free real-time signal";
        let (number, before) = free.into_iter().next().ok_or_else(|| system(what))?;
        let mut action = empty_action();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: the pointer refers to the mask of an initialised local action. With a full mask
        // no other signal interrupts the handler, except for faults.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: `action` is initialised and outlives the call, and the third argument may be
        // null. The handler has the signature that `SA_SIGINFO` requires and is async-signal-safe.
        if unsafe { libc::sigaction(number, &raw const action, ptr::null_mut()) } != 0 {
            return Err(system("handle a signal"));
        }
        Ok(Self { number, handler, before })
    }

    /// Gives the signal back. All its timers must have been deleted.
    pub(super) fn give_back(&self) {
        if disposition(self.number)
            .is_none_or(|now| now.sa_sigaction != self.handler as *const () as usize)
        {
            return; // another handler has replaced this one
        }
        // A pending signal would terminate the process once the handler is removed. Ignoring the
        // signal first discards the pending ones of all threads.
        let mut ignored = empty_action();
        ignored.sa_sigaction = libc::SIG_IGN;
        // SAFETY: both actions are initialised and outlive the calls, and the third argument may be
        // null.
        unsafe {
            libc::sigaction(self.number, &raw const ignored, ptr::null_mut());
            libc::sigaction(self.number, &raw const self.before, ptr::null_mut());
        }
    }
}

fn empty_action() -> libc::sigaction {
    // SAFETY: `sigaction` is a plain structure, for which all-zero bytes are the default action.
    unsafe { std::mem::zeroed() }
}

fn disposition(number: libc::c_int) -> Option<libc::sigaction> {
    let mut current = empty_action();
    // SAFETY: a null pointer as the new action changes no state. `current` is a valid `sigaction`
    // that outlives the call.
    let answer = unsafe { libc::sigaction(number, ptr::null(), &raw mut current) };
    (answer == 0).then_some(current)
}

/// Creates a timer that sends `signal` to the thread with the slot's ticket, and stores it in the
/// slot. The timer does not run yet. Returns `false` if the thread has ended, or if the system has
/// no more timers.
pub(super) fn make(slot: &Slot, thread: i32, signal: &Signal) -> bool {
    // SAFETY: `sigevent` is a plain structure, for which all-zero bytes are valid.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal.number;
    event.sigev_notify_thread_id = thread;
    event.sigev_value =
        libc::sigval { sival_ptr: ptr::without_provenance_mut(slot.ticket() as usize) };
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both pointers refer to initialised local variables that outlive the call.
    let answer =
        unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    slot.timer.store(timer, std::sync::atomic::Ordering::SeqCst);
    answer == 0
}

fn span(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    }
}

fn set(timer: libc::timer_t, first: u64, period: u64) {
    let times = libc::itimerspec { it_interval: span(period), it_value: span(first) };
    // SAFETY: `timer_create` returned this timer, and it is not deleted: callers are the collector
    // before it deletes the timer, or a handler inside its slot. `times` outlives the call, and the
    // fourth argument may be null. The function is async-signal-safe. If it fails, the timer is
    // unchanged.
    unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) };
}

/// Starts the timer: it expires after `first` nanoseconds and then every `period` nanoseconds.
pub(super) fn run(timer: libc::timer_t, first: u64, period: u64) {
    set(timer, first.max(1), period);
}

/// Returns the nanoseconds until the next expiry. The handler may also call it.
pub(super) fn remaining(timer: libc::timer_t) -> u64 {
    let mut times = libc::itimerspec { it_interval: span(0), it_value: span(0) };
    // SAFETY: `times` is a valid `itimerspec` that outlives the call. The timer is not deleted
    // while a handler is inside its slot. The function is async-signal-safe.
    unsafe { libc::timer_gettime(timer, &raw mut times) };
    times.it_value.tv_sec as u64 * 1_000_000_000 + times.it_value.tv_nsec as u64
}

/// Stops the timer. The handler may also call it.
pub(super) fn stop(timer: libc::timer_t) {
    set(timer, 0, 0);
}

pub(super) fn delete(timer: libc::timer_t) {
    // SAFETY: `timer_create` returned this timer. The collector deletes it once, after the slot's
    // lease has ended and all handlers have left. No handler uses it later.
    unsafe { libc::timer_delete(timer) };
}

/// Returns the calling thread's processor time in nanoseconds. The handler may also call it.
pub(super) fn own_processor_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// Returns the processor time in nanoseconds of all threads, including those that have ended.
pub(super) fn processor_time_of_process() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0)
}

/// Returns the processor time of a thread of this process in nanoseconds, or `None` if the thread
/// has ended.
pub(super) fn processor_time_of(thread: i32) -> Option<u64> {
    // The system encodes the clock of a thread as its id and the flags for a scheduler clock of a
    // single thread.
    clock((!thread as libc::clockid_t) << 3 | 0b110)
}

pub(super) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

fn clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = span(0);
    // SAFETY: `time` is a valid `timespec` that outlives the call. The function is
    // async-signal-safe.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (answer == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
