//! Timers and clocks of threads, and the signal that tells of them.

use std::io;
use std::ptr;

use super::slot::Slot;
use crate::SamplerError;

/// The handler's signal, and what it did before.
pub(super) struct Signal {
    pub(super) number: libc::c_int,
    handler: Handler,
    before: libc::sigaction,
}

/// What the system calls on a signal.
pub(super) type Handler =
    unsafe extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn system(what: &'static str) -> SamplerError {
    SamplerError::System { what, source: io::Error::last_os_error() }
}

impl Signal {
    /// Takes a real-time signal that nobody has a use for.
    pub(super) fn take(handler: Handler) -> Result<Self, SamplerError> {
        // The last one is valgrind's.
        let candidates = (libc::SIGRTMIN()..libc::SIGRTMAX()).rev();
        let free = candidates.filter_map(|number| {
            let before = disposition(number)?;
            (before.sa_sigaction == libc::SIG_DFL).then_some((number, before))
        });
        let what = "take a real-time signal: the program uses all of them, or it";
        let (number, before) = free.into_iter().next().ok_or_else(|| system(what))?;
        let mut action = empty_action();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        // SAFETY: `action` is whole; nothing interrupts the handler but faults.
        unsafe { libc::sigfillset(&raw mut action.sa_mask) };
        // SAFETY: both are good during the call. The handler is safe to run anywhere.
        if unsafe { libc::sigaction(number, &raw const action, ptr::null_mut()) } != 0 {
            return Err(system("handle a signal"));
        }
        Ok(Self { number, handler, before })
    }

    /// Gives it back. All its timers are deleted.
    pub(super) fn give_back(&self) {
        if disposition(self.number)
            .is_none_or(|now| now.sa_sigaction != self.handler as *const () as usize)
        {
            return; // somebody else's by now
        }
        // A signal that is under way would end the process once nobody handles it: ignoring it
        // first throws away what is under way, on all threads.
        let mut ignored = empty_action();
        ignored.sa_sigaction = libc::SIG_IGN;
        // SAFETY: the actions are whole and good during the calls.
        unsafe {
            libc::sigaction(self.number, &raw const ignored, ptr::null_mut());
            libc::sigaction(self.number, &raw const self.before, ptr::null_mut());
        }
    }
}

fn empty_action() -> libc::sigaction {
    // SAFETY: all-zero is a valid action: the default one.
    unsafe { std::mem::zeroed() }
}

fn disposition(number: libc::c_int) -> Option<libc::sigaction> {
    let mut current = empty_action();
    // SAFETY: without a new action nothing changes; `current` outlives the call.
    let answer = unsafe { libc::sigaction(number, ptr::null(), &raw mut current) };
    (answer == 0).then_some(current)
}

/// Makes a timer that sends `signal` to the thread with the slot's ticket, `period` nanoseconds apart,
/// the first after `first`. `None` if the thread is gone, or the system has no more timers.
pub(super) fn make(slot: &Slot, thread: i32, signal: &Signal) -> bool {
    // SAFETY: all-zero is valid for this plain structure.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal.number;
    event.sigev_notify_thread_id = thread;
    event.sigev_value =
        libc::sigval { sival_ptr: ptr::without_provenance_mut(slot.ticket() as usize) };
    let mut timer: libc::timer_t = ptr::null_mut();
    // SAFETY: both are good during the call.
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
    // SAFETY: a timer that `timer_create` made and nobody has deleted; async-signal-safe. If it
    // fails the timer stays as it was.
    unsafe { libc::timer_settime(timer, 0, &raw const times, ptr::null_mut()) };
}

/// Lets the timer expire after `first` nanoseconds and then every `period`.
pub(super) fn run(timer: libc::timer_t, first: u64, period: u64) {
    set(timer, first.max(1), period);
}

/// Nanoseconds to the next expiry. Also for the handler.
pub(super) fn remaining(timer: libc::timer_t) -> u64 {
    let mut times = libc::itimerspec { it_interval: span(0), it_value: span(0) };
    // SAFETY: `times` is good during the call; async-signal-safe.
    unsafe { libc::timer_gettime(timer, &raw mut times) };
    times.it_value.tv_sec as u64 * 1_000_000_000 + times.it_value.tv_nsec as u64
}

/// Also for the handler.
pub(super) fn stop(timer: libc::timer_t) {
    set(timer, 0, 0);
}

pub(super) fn delete(timer: libc::timer_t) {
    // SAFETY: made by `timer_create`, and deleted once, by the collector, after the lease of its
    // slot has ended and all handlers have left it: none uses the timer, nor will one.
    unsafe { libc::timer_delete(timer) };
}

/// The calling thread's processor time in nanoseconds. Also for the handler.
pub(super) fn own_processor_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0)
}

/// The processor time of all threads that ever were.
pub(super) fn processor_time_of_process() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(0)
}

/// The processor time of a thread of this process in nanoseconds; `None` if it is gone.
pub(super) fn processor_time_of(thread: i32) -> Option<u64> {
    // As the system encodes the clock of a thread: its number, and "per thread, as scheduled".
    clock((!thread as libc::clockid_t) << 3 | 0b110)
}

pub(super) fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC).unwrap_or(0)
}

fn clock(clock: libc::clockid_t) -> Option<u64> {
    let mut time = span(0);
    // SAFETY: `time` is good during the call; async-signal-safe.
    let answer = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (answer == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
