//! The signal handler, which takes one sample of the thread that it interrupts.
//!
//! The handler never allocates, takes a lock, or accesses a thread-local of this crate. It may
//! interrupt the thread anywhere, including in `malloc` or in the dynamic loader.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use framehop::Unwinder;

use super::process_layout::UnwindSnapshot;
use super::registers::{Registers, SYSTEM_CALL, code_address, thread_pointer};
use super::ring::Writing;
use super::slot::{Slot, UnwindCache};
use super::timer;
use mlprof_events::clock::counter;

/// Current snapshot for handlers. If it is null, handlers take no samples.
///
/// *Invariant*: a handler loads the pointer after it has entered its slot. The collector swaps a
/// snapshot out first. It frees the snapshot only after it has seen every slot without a handler
/// inside.
pub(super) static SNAPSHOT: AtomicPtr<UnwindSnapshot> = AtomicPtr::new(ptr::null_mut());

/// Maximum number of frames to keep, counted from the innermost.
const MOST_FRAMES: u64 = 128;

/// Minimum stack space below the handler's frame for unwinding, in bytes.
const ROOM_TO_UNWIND: usize = 64 << 10;

/// Minimum space on an alternate stack below the handler's frame for recording even the current
/// function, in bytes.
const ROOM_TO_NOTE: usize = 2 << 10;

/// Number of header words of a sample. They contain:
///
/// - lengths and flags
/// - ticks that were in time, and the cost of the sample
/// - ticks that were late
/// - session
pub(super) const HEAD: usize = 4;
/// Flag of a sample whose thread waited.
pub(super) const WAITS: u64 = 1 << 48;
/// Flag of a sample with an incomplete stack: it has more frames than are kept, or unwinding
/// failed.
pub(super) const CUT: u64 = 1 << 49;
/// Flag of a sample that contains only the current function.
pub(super) const NO_STACK: u64 = 1 << 50;

/// Timer ticks that a sample represents.
#[derive(Clone, Copy)]
struct Ticks {
    in_time: u64,
    /// Ticks that expired while the thread could not be interrupted.
    late: u64,
}

impl Ticks {
    /// Counts all ticks as late if the last one expired too long ago. `nanoseconds` is the time
    /// since that expiry.
    fn or_late(self, nanoseconds: u64, period: u64) -> Self {
        /// Maximum delay of a tick that is in time. An interrupt becomes a signal in less time.
        const IN_TIME: u64 = 20_000;
        match nanoseconds > IN_TIME.max(period / 8) {
            true => Self { in_time: 0, late: self.late + self.in_time },
            false => self,
        }
    }
}

/// Signal information for an expired timer: the first members of `siginfo_t`.
#[repr(C)]
struct TimerSignal {
    number: libc::c_int,
    error: libc::c_int,
    code: libc::c_int,
    _alignment: libc::c_int,
    timer: libc::c_int,
    overrun: libc::c_int,
    value: u64,
}

/// Handles the signal. `information` and `context` are the arguments that the system passes with
/// `SA_SIGINFO`.
pub(super) unsafe extern "C" fn on_signal(
    _number: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let started = counter();
    // SAFETY: the function has no preconditions and is async-signal-safe.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer refers to this thread's `errno`, which is valid, aligned and initialised
    // for the life of the thread.
    let error = unsafe { *errno };
    // SAFETY: the handler is registered with `SA_SIGINFO`, so the system passes valid pointers to a
    // `siginfo_t` and a `ucontext_t`. Both stay unchanged while the handler runs. `TimerSignal` has
    // the layout of the first members of `siginfo_t` and is not larger. Its members are integers,
    // for which all bytes are valid.
    let (signal, context) = unsafe {
        (&*information.cast::<TimerSignal>(), &*context.cast_const().cast::<libc::ucontext_t>())
    };
    if signal.code == libc::SI_TIMER
        && let Some((slot, generation)) = Slot::of_ticket(signal.value)
        && let Some(_entered) = slot.lease.enter(generation)
    {
        let missed = u64::from(signal.overrun.max(0).unsigned_abs());
        if leaves_time_to_work(slot, started) && has_room_to_note(context) {
            // If the thread had been running at the first of several ticks, that tick would have
            // interrupted it. So all of these ticks expired while the thread had no processor.
            let late = if missed == 0 { 0 } else { 1 + missed };
            let ticks = Ticks { in_time: u64::from(missed == 0), late };
            // SAFETY: the slot was entered with the right generation. This handler therefore runs
            // on the slot's thread and stays inside until `_entered` is dropped.
            unsafe { sample(slot, ticks, &Registers::of(context), started) };
            let finished = counter();
            slot.finished.store(finished, Ordering::Relaxed);
            note_cost(slot, finished.wrapping_sub(started));
        } else {
            slot.passed_over.fetch_add(1 + missed, Ordering::Relaxed);
        }
    }
    // SAFETY: the pointer still refers to this thread's `errno`, because the handler runs on one
    // thread.
    unsafe { *errno = error };
}

/// Returns `true` if enough stack is left for a sample. A handler of the program may be running on
/// an alternate stack that is barely larger than one signal frame. This handler then runs on the
/// rest of that stack.
fn has_room_to_note(context: &libc::ucontext_t) -> bool {
    let (stack, mark) = (&context.uc_stack, 0_u8);
    let (low, here) = (stack.ss_sp as usize, &raw const mark as usize);
    let is_alternate =
        stack.ss_flags & libc::SS_DISABLE == 0 && (low..low + stack.ss_size).contains(&here);
    !is_alternate || here - low >= ROOM_TO_NOTE
}

/// Returns `true` if the thread has run for at least half the duration of a sample since the last
/// sample. Otherwise a high rate on a slow processor would leave the thread no time for its own
/// work.
fn leaves_time_to_work(slot: &Slot, now: u64) -> bool {
    let rest = now.wrapping_sub(slot.finished.load(Ordering::Relaxed));
    2 * rest >= slot.cost.load(Ordering::Relaxed)
}

/// Updates the known cost of a sample. An increase is limited, because a very long sample is
/// usually one whose thread was preempted inside the handler.
fn note_cost(slot: &Slot, measured: u64) {
    let known = slot.cost.load(Ordering::Relaxed);
    slot.cost.store(measured.min(known + known / 8 + 1000), Ordering::Relaxed);
}

/// Takes a sample. It is a separate function, so that a handler that only skips a tick needs little
/// stack.
///
/// # Safety
///
/// The caller must be the handler of the slot's thread and must have entered the slot.
#[inline(never)]
unsafe fn sample(slot: &Slot, ticks: Ticks, registers: &Registers, started: u64) {
    // SAFETY: the pointer is null or from `Box::into_raw`. The caller is inside a slot, so by the
    // invariant of `SNAPSHOT` the snapshot is not freed before the caller leaves. Snapshots do not
    // change.
    let Some(snapshot) = (unsafe { SNAPSHOT.load(Ordering::SeqCst).as_ref() }) else { return };
    let waits = is_interrupted_wait(registers, snapshot);
    let remaining = timer::remaining(slot.timer.load(Ordering::Relaxed)).min(snapshot.period);
    let mut ticks = ticks.or_late(snapshot.period - remaining, snapshot.period);
    ticks.in_time += slot.passed_over.swap(0, Ordering::Relaxed);
    // SAFETY: the caller has entered the slot and stays inside for the whole function.
    let work = unsafe { slot.work() };
    let mut writing = work.ring.begin();
    for _ in 0..HEAD {
        writing.push(0);
    }
    // SAFETY: this code runs on the slot's thread, as the contract of `sample` requires.
    let (session, scopes) = unsafe { write_scopes(slot, &mut writing) };
    // SAFETY: the caller is the handler of the slot's thread and has entered the slot. `work.cache`
    // is the cache of that slot.
    let flags = unsafe { write_stack(slot, &work.cache, snapshot, registers, &mut writing) };
    let length = writing.length();
    writing.set(0, length | scopes << 16 | flags | if waits { WAITS } else { 0 });
    writing.set(2, ticks.late);
    writing.set(3, session);
    let cost = counter().wrapping_sub(started).min(u64::from(u32::MAX));
    writing.set(1, ticks.in_time.min(u64::from(u32::MAX)) | cost << 32);
    if !writing.finish() {
        work.ring.drop_ticks(ticks.in_time + ticks.late);
    }
    if !note_waiting(slot, snapshot, waits) {
        change_phase(slot, snapshot, remaining);
    }
}

/// Returns `true` if the signal interrupted a wait in a system call. The call is then about to be
/// restarted, or it returns `EINTR`.
fn is_interrupted_wait(registers: &Registers, snapshot: &UnwindSnapshot) -> bool {
    let at = registers.instruction;
    let is_call = |start: usize| {
        let bytes = start..start.wrapping_add(SYSTEM_CALL.len());
        // SAFETY: `is_code` checked that the bytes lie in a readable code segment of a library. The
        // library stays loaded while the snapshot is in use, and its code does not change.
        snapshot.is_code(bytes.clone())
            && unsafe {
                std::slice::from_raw_parts(bytes.start as *const u8, bytes.len()) == SYSTEM_CALL
            }
    };
    let is_interrupted = registers.result == -(libc::EINTR as isize);
    is_call(at) || is_interrupted && is_call(at.wrapping_sub(SYSTEM_CALL.len()))
}

/// Counts consecutive samples of waiting and stops the timer of a thread that only waits. Returns
/// `true` if the timer was stopped. The thread stays at the same place until it runs again.
fn note_waiting(slot: &Slot, snapshot: &UnwindSnapshot, waits: bool) -> bool {
    let count = if waits { slot.waits.load(Ordering::Relaxed) + 1 } else { 0 };
    slot.waits.store(count, Ordering::Relaxed);
    let is_idle = count >= snapshot.idle_after;
    if is_idle {
        slot.waits.store(0, Ordering::Relaxed);
        timer::stop(slot.timer.load(Ordering::Relaxed));
        slot.idle_since.store(timer::own_processor_time(), Ordering::Relaxed);
        slot.is_idle.store(true, Ordering::Release);
    }
    is_idle
}

/// Average number of samples after which the time to the next one is chosen at random. Otherwise a
/// loop whose duration is a whole number of ticks, such as a few milliseconds, would always be
/// sampled at the same places.
const SAMPLES_IN_PHASE: u64 = 4;

fn change_phase(slot: &Slot, snapshot: &UnwindSnapshot, remaining: u64) {
    // This is a linear congruential generator, of which only the upper bits are sufficiently
    // random.
    let number = slot.random.load(Ordering::Relaxed);
    let next = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    slot.random.store(next, Ordering::Relaxed);
    if (next >> 60).is_multiple_of(SAMPLES_IN_PHASE) {
        let timer = slot.timer.load(Ordering::Relaxed);
        // The average equals the time that remains anyway. If the sample came late, that is less
        // than a period. A full period would favour places in the program at which samples often
        // come late.
        let part = (next >> 28) & 0xffff_ffff; // random fraction, in units of 2^-32
        timer::run(timer, (part * 2 * remaining) >> 32, snapshot.period);
    }
}

/// Writes the numbers of the open actions, two per word. Returns the session and the number of
/// actions.
///
/// # Safety
///
/// The caller must run on the slot's thread.
unsafe fn write_scopes(slot: &Slot, writing: &mut Writing<'_>) -> (u64, u64) {
    // SAFETY: the pointer is null, or refers to the thread-local scopes of the slot's thread. They
    // have no destructor and stay valid as long as that thread, on which this code runs.
    let Some(scopes) = (unsafe { slot.scopes.load(Ordering::Relaxed).as_ref() }) else {
        return (0, 0);
    };
    let (mut count, mut half) = (0_u64, 0);
    let mut tell = |action: u32| {
        if count % 2 == 1 {
            writing.push(half | u64::from(action) << 32);
        }
        half = u64::from(action);
        count += 1;
    };
    // SAFETY: this code runs on the thread that the scopes belong to, in a handler that interrupted
    // it.
    let session = unsafe { scopes.read(&mut tell) };
    if count % 2 == 1 {
        writing.push(half);
    }
    (session, count)
}

/// Writes the addresses on the stack, innermost first, and returns flags.
///
/// # Safety
///
/// The caller must be the handler of the slot's thread and must have entered the slot. `cache` must
/// be the cache of that slot.
unsafe fn write_stack(
    slot: &Slot,
    cache: &UnsafeCell<UnwindCache>,
    snapshot: &UnwindSnapshot,
    registers: &Registers,
    writing: &mut Writing<'_>,
) -> u64 {
    writing.push(registers.instruction as u64);
    let Some((low, high)) = stack_of(slot, snapshot, registers.stack) else { return NO_STACK };
    let read = |address: u64| {
        let address = address as usize;
        let is_stack = address >= registers.stack && address <= high - size_of::<u64>();
        if !is_stack || !address.is_multiple_of(align_of::<u64>()) {
            return Err(());
        }
        // SAFETY: the address is aligned. It lies between the thread's stack pointer and the end of
        // its own stack, which is mapped and readable while the thread exists. The thread itself is
        // interrupted. Another thread may still write to a local that it borrowed. Any value is
        // acceptable: it is only recorded, or checked here before it is used as an address.
        Ok(unsafe { *(address as *const u64) })
    };
    if snapshot.walks_frame_pointers {
        return write_frame_pointers(registers, high, read, writing);
    }
    let here = ptr::from_ref(&high) as usize;
    if here < low + ROOM_TO_UNWIND {
        return NO_STACK;
    }
    // SAFETY: by the invariant of the slot, only a handler that has entered it uses the cell. A
    // thread has at most one such handler. No other reference to the cache exists.
    let cache = unsafe { &mut *cache.get() };
    unwind(snapshot, registers, cache, read, writing)
}

/// Unwinds the stack with the tables. It is a separate function because it takes some kilobytes of
/// stack, which an alternate stack may not have.
#[inline(never)]
fn unwind(
    snapshot: &UnwindSnapshot,
    registers: &Registers,
    cache: &mut UnwindCache,
    mut read: impl FnMut(u64) -> Result<u64, ()>,
    writing: &mut Writing<'_>,
) -> u64 {
    let instruction = registers.instruction as u64;
    let mut frames =
        snapshot.tables.iter_frames(instruction, registers.for_unwinding(), cache, &mut read);
    let _ = frames.next(); // skips the interrupted instruction itself
    for _ in 1..MOST_FRAMES {
        match frames.next() {
            Ok(Some(frame)) => writing.push(frame.address_for_lookup()),
            Ok(None) => return 0,
            Err(_) => return CUT,
        };
    }
    CUT
}

fn write_frame_pointers(
    registers: &Registers,
    high: usize,
    read: impl Fn(u64) -> Result<u64, ()>,
    writing: &mut Writing<'_>,
) -> u64 {
    let mut frame = registers.frame as u64;
    for _ in 1..MOST_FRAMES {
        let (Ok(next), Ok(back)) = (read(frame), read(frame.wrapping_add(8))) else {
            return if frame == 0 { 0 } else { CUT };
        };
        let back = code_address(back);
        if back == 0 {
            return 0;
        }
        writing.push(back - 1);
        if next == 0 {
            return 0;
        }
        // The walk only goes upwards, so it ends.
        if next <= frame || next as usize >= high {
            return CUT;
        }
        frame = next;
    }
    CUT
}

/// Returns the bounds of the stack that the thread is on, if it is the thread's own.
fn stack_of(slot: &Slot, snapshot: &UnwindSnapshot, pointer: usize) -> Option<(usize, usize)> {
    let known = (slot.stack_low.load(Ordering::Relaxed), slot.stack_high.load(Ordering::Relaxed));
    if (known.0..known.1).contains(&pointer) {
        return Some(known);
    }
    let found = find_stack(slot, snapshot, pointer)?;
    slot.stack_low.store(found.0, Ordering::Relaxed);
    slot.stack_high.store(found.1, Ordering::Relaxed);
    Some(found)
}

/// Finds the bounds of the thread's own stack. The end of the mapping is not used, because memory
/// above the stack in the same mapping may be unmapped at any time. The thread's own data lies
/// directly above its stack and exists as long as the thread.
fn find_stack(slot: &Slot, snapshot: &UnwindSnapshot, pointer: usize) -> Option<(usize, usize)> {
    let main = snapshot.main_stack();
    if main.contains(&pointer) {
        return slot.is_main.load(Ordering::Relaxed).then_some((main.start, main.end));
    }
    let mapping = snapshot.writable_around(pointer)?;
    let end = thread_pointer() & !(align_of::<u64>() - 1);
    (mapping.contains(&end) && pointer < end).then_some((mapping.start, end))
}
