//! The signal handler: one sample of the thread that it interrupts.
//!
//! Nothing here allocates, takes a lock or touches a thread-local of ours. It may interrupt the
//! thread anywhere, in `malloc` or in the loader as well.

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

/// What handlers work with; null: they do nothing.
///
/// *Invariant*: a handler reads it after it has entered its slot. A snapshot that is taken out is
/// freed only after every slot has been seen at rest.
pub(super) static SNAPSHOT: AtomicPtr<UnwindSnapshot> = AtomicPtr::new(ptr::null_mut());

/// The innermost so many frames are kept.
const MOST_FRAMES: u64 = 128;

/// Less of a stack than this below the handler is not enough to unwind on.
const ROOM_TO_UNWIND: usize = 64 << 10;

/// Less of an alternate stack than this below the handler is not enough to note even the current
/// function on.
const ROOM_TO_NOTE: usize = 2 << 10;

/// A sample's first words: lengths and flags; ticks that were in time and cost; ticks that were
/// late; session.
pub(super) const HEAD: usize = 4;
/// The thread waited.
pub(super) const WAITS: u64 = 1 << 48;
/// There were more frames than are kept, or the way out was not found.
pub(super) const CUT: u64 = 1 << 49;
/// Nothing but the current function was noted.
pub(super) const NO_STACK: u64 = 1 << 50;

/// What a sample stands for.
#[derive(Clone, Copy)]
struct Ticks {
    in_time: u64,
    /// The thread could not be interrupted when they came.
    late: u64,
}

impl Ticks {
    /// A tick that came a good while ago, though no other has come since, is late, too.
    fn or_late(self, nanoseconds: u64, period: u64) -> Self {
        /// Longer than an interrupt takes to become a signal.
        const IN_TIME: u64 = 20_000;
        match nanoseconds > IN_TIME.max(period / 8) {
            true => Self { in_time: 0, late: self.late + self.in_time },
            false => self,
        }
    }
}

/// What the system tells of an expired timer. The first members of `siginfo_t`.
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

/// The handler. `information` and `context` are what the system passes with `SA_SIGINFO`.
pub(super) unsafe extern "C" fn on_signal(
    _number: libc::c_int,
    information: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    let started = counter();
    // SAFETY: every thread has an `errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let error = unsafe { *errno };
    // SAFETY: the system passes both, good for as long as the handler runs; for a timer's signal the
    // information has the members of `TimerSignal`, which is smaller than `siginfo_t`.
    let (signal, context) = unsafe {
        (&*information.cast::<TimerSignal>(), &*context.cast_const().cast::<libc::ucontext_t>())
    };
    if signal.code == libc::SI_TIMER
        && let Some((slot, generation)) = Slot::of_ticket(signal.value)
        && let Some(_entered) = slot.lease.enter(generation)
    {
        let missed = u64::from(signal.overrun.max(0).unsigned_abs());
        if leaves_time_to_work(slot, started) && has_room_to_note(context) {
            // Had the thread been running when the first of several ticks came, it would have
            // been interrupted there: all of them came while it had no processor.
            let late = if missed == 0 { 0 } else { 1 + missed };
            let ticks = Ticks { in_time: u64::from(missed == 0), late };
            // SAFETY: the slot was entered with the right generation, so this is the handler of
            // the slot's thread, and the snapshot that is read now stays.
            unsafe { sample(slot, ticks, &Registers::of(context), started) };
            let finished = counter();
            slot.finished.store(finished, Ordering::Relaxed);
            note_cost(slot, finished.wrapping_sub(started));
        } else {
            slot.passed_over.fetch_add(1 + missed, Ordering::Relaxed);
        }
    }
    // SAFETY: as above.
    unsafe { *errno = error };
}

/// Whether the handler has the stack that a sample takes. A handler of the program's own may be at
/// work on an alternate stack that is hardly larger than one frame of a signal, and this handler
/// then runs on the rest of it.
fn has_room_to_note(context: &libc::ucontext_t) -> bool {
    let (stack, mark) = (&context.uc_stack, 0_u8);
    let (low, here) = (stack.ss_sp as usize, &raw const mark as usize);
    let is_alternate =
        stack.ss_flags & libc::SS_DISABLE == 0 && (low..low + stack.ss_size).contains(&here);
    !is_alternate || here - low >= ROOM_TO_NOTE
}

/// Whether the thread had half as long for itself as a sample takes: at a high rate and with a slow
/// processor it would otherwise come to nothing else.
fn leaves_time_to_work(slot: &Slot, now: u64) -> bool {
    let rest = now.wrapping_sub(slot.finished.load(Ordering::Relaxed));
    2 * rest >= slot.cost.load(Ordering::Relaxed)
}

/// Follows slowly what gets longer: mostly that is a handler that lost its processor for a while.
fn note_cost(slot: &Slot, measured: u64) {
    let known = slot.cost.load(Ordering::Relaxed);
    slot.cost.store(measured.min(known + known / 8 + 1000), Ordering::Relaxed);
}

/// In a function of its own: a handler that only passes over a tick needs little stack.
///
/// # Safety
///
/// Only in the handler of the slot's thread, which has entered the slot.
#[inline(never)]
unsafe fn sample(slot: &Slot, ticks: Ticks, registers: &Registers, started: u64) {
    // SAFETY: snapshots are freed only when no handler is inside any slot.
    let Some(snapshot) = (unsafe { SNAPSHOT.load(Ordering::SeqCst).as_ref() }) else { return };
    let waits = is_interrupted_wait(registers, snapshot);
    let remaining = timer::remaining(slot.timer.load(Ordering::Relaxed)).min(snapshot.period);
    let mut ticks = ticks.or_late(snapshot.period - remaining, snapshot.period);
    ticks.in_time += slot.passed_over.swap(0, Ordering::Relaxed);
    // SAFETY: as the caller promises.
    let work = unsafe { slot.work() };
    let mut writing = work.ring.begin();
    for _ in 0..HEAD {
        writing.push(0);
    }
    // SAFETY: the scopes are those of the slot's thread, which is this one.
    let (session, scopes) = unsafe { write_scopes(slot, &mut writing) };
    // SAFETY: as the caller promises.
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

/// Whether the signal ended a wait in a system call: the call is about to be made again, or says
/// that it was interrupted.
fn is_interrupted_wait(registers: &Registers, snapshot: &UnwindSnapshot) -> bool {
    let at = registers.instruction;
    let is_call = |start: usize| {
        let bytes = start..start.wrapping_add(SYSTEM_CALL.len());
        // SAFETY: code of a library that is kept in memory and may be read.
        snapshot.is_code(bytes.clone())
            && unsafe {
                std::slice::from_raw_parts(bytes.start as *const u8, bytes.len()) == SYSTEM_CALL
            }
    };
    let is_interrupted = registers.result == -(libc::EINTR as isize);
    is_call(at) || is_interrupted && is_call(at.wrapping_sub(SYSTEM_CALL.len()))
}

/// Stops the timer of a thread that only waits, and says so: until it runs again it is where it was.
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

/// Every so many samples the time to the next one is chosen at random. Else a loop that takes a
/// whole number of ticks, as loops of a few milliseconds may, would always be hit at the same places.
const SAMPLES_IN_PHASE: u64 = 4;

fn change_phase(slot: &Slot, snapshot: &UnwindSnapshot, remaining: u64) {
    // A linear congruential generator, of which the upper bits are good.
    let number = slot.random.load(Ordering::Relaxed);
    let next = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    slot.random.store(next, Ordering::Relaxed);
    if (next >> 60).is_multiple_of(SAMPLES_IN_PHASE) {
        let timer = slot.timer.load(Ordering::Relaxed);
        // On average what it is anyway. That is less than a period where the sample came late, which
        // some places in the program make likelier than others.
        let part = (next >> 28) & 0xffff_ffff; // of 2^32
        timer::run(timer, (part * 2 * remaining) >> 32, snapshot.period);
    }
}

/// The session, and how many actions were written, two to a word.
///
/// # Safety
///
/// Only on the slot's thread.
unsafe fn write_scopes(slot: &Slot, writing: &mut Writing<'_>) -> (u64, u64) {
    // SAFETY: good as long as the thread lives.
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
    // SAFETY: on the thread that they belong to.
    let session = unsafe { scopes.read(&mut tell) };
    if count % 2 == 1 {
        writing.push(half);
    }
    (session, count)
}

/// Writes the addresses of the stack, innermost first; flags.
///
/// # Safety
///
/// Only in the handler of the slot's thread, which has entered the slot.
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
        // SAFETY: between the stack pointer and the end of this thread's own stack; the thread does
        // nothing else meanwhile.
        Ok(unsafe { *(address as *const u64) })
    };
    if snapshot.walks_frame_pointers {
        return write_frame_pointers(registers, high, read, writing);
    }
    let here = ptr::from_ref(&high) as usize;
    if here < low + ROOM_TO_UNWIND {
        return NO_STACK;
    }
    // SAFETY: the cell is this handler's alone, by the slot's invariant.
    let cache = unsafe { &mut *cache.get() };
    unwind(snapshot, registers, cache, read, writing)
}

/// In a function of its own: it takes some kilobytes of stack, which an alternate stack may not have.
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
    let _ = frames.next(); // the instruction itself
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
        // Upwards only, so that the walk ends.
        if next <= frame || next as usize >= high {
            return CUT;
        }
        frame = next;
    }
    CUT
}

/// The ends of the stack that the thread is on, if it is the thread's own.
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

/// The end of a mapping is not good enough: what lies above the stack in the same one may go at any
/// time. The thread's own data, which lie directly above its stack, stay as long as the thread.
fn find_stack(slot: &Slot, snapshot: &UnwindSnapshot, pointer: usize) -> Option<(usize, usize)> {
    let main = snapshot.main_stack();
    if main.contains(&pointer) {
        return slot.is_main.load(Ordering::Relaxed).then_some((main.start, main.end));
    }
    let mapping = snapshot.writable_around(pointer)?;
    let end = thread_pointer() & !(align_of::<u64>() - 1);
    (mapping.contains(&end) && pointer < end).then_some((mapping.start, end))
}
