//! What the signal handler of one thread works with.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use framehop::{CacheNative, MustNotAllocateDuringUnwind};

use super::ring::Ring;
use profiler_events::open_scopes::OpenScopes;

/// So many threads can be sampled at the same time.
pub(super) const MOST_SLOTS: usize = 4096;

/// All slots that were ever made. They are never freed: a signal that was under way when its timer
/// was deleted may come at any later time, and finds its slot by its index.
static SLOTS: [AtomicPtr<Slot>; MOST_SLOTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_SLOTS];

pub(super) type UnwindCache = CacheNative<MustNotAllocateDuringUnwind>;

/// One thread's part of the sampler; another thread's later.
///
/// *Invariant*: what is not atomic, and the writing end of `ring`, is used by the handler of the
/// thread whose timer carries `generation`, while `inside` is not 0. The collector changes the
/// owner by storing another `generation`, and touches these only after it has then seen `inside`
/// at 0: any handler that enters later finds that it is not meant.
#[repr(align(128))]
pub(super) struct Slot {
    pub(super) index: u32,
    /// Which use of the slot this is; 0: none.
    pub(super) generation: AtomicU32,
    /// How many handlers are at work with the slot.
    pub(super) inside: AtomicU32,
    pub(super) ring: Ring,
    pub(super) cache: UnsafeCell<UnwindCache>,
    /// The thread's stack; 0 and 0 until the handler has found it.
    pub(super) stack_low: AtomicUsize,
    pub(super) stack_high: AtomicUsize,
    /// The stack may be the process's first one, which grows.
    pub(super) is_main: AtomicBool,
    /// Null for a thread that never recorded anything.
    pub(super) scopes: AtomicPtr<OpenScopes>,
    /// When the last sample was finished and about how long one takes, by the processor's counter,
    /// and the ticks that were passed over since. The handler's.
    pub(super) finished: AtomicU64,
    pub(super) cost: AtomicU64,
    pub(super) passed_over: AtomicU64,
    /// For the moments of samples. The handler's.
    pub(super) random: AtomicU64,
    /// How many samples of waiting came one after the other.
    pub(super) waits: AtomicU32,
    /// The handler has stopped the timer, since the thread only waits. The collector starts it again.
    pub(super) is_idle: AtomicBool,
    /// The thread's processor time when it became idle, in nanoseconds.
    pub(super) idle_since: AtomicU64,
    /// The timer runs. For the collector.
    pub(super) has_begun: AtomicBool,
    /// What `timer_create` gave.
    pub(super) timer: AtomicPtr<libc::c_void>,
}

// SAFETY: by the invariant the cell has one user at a time; all else is atomic.
unsafe impl Sync for Slot {}

impl Slot {
    pub(super) fn new(index: u32, ring_words: usize) -> Self {
        Self {
            index,
            generation: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            ring: Ring::new(ring_words),
            cache: UnsafeCell::new(UnwindCache::new_in()),
            stack_low: AtomicUsize::new(0),
            stack_high: AtomicUsize::new(0),
            is_main: AtomicBool::new(false),
            scopes: AtomicPtr::new(ptr::null_mut()),
            finished: AtomicU64::new(0),
            cost: AtomicU64::new(0),
            passed_over: AtomicU64::new(0),
            random: AtomicU64::new(u64::from(index)),
            waits: AtomicU32::new(0),
            is_idle: AtomicBool::new(false),
            idle_since: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
            timer: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The slot and generation that a timer carries.
    pub(super) fn ticket(&self) -> u64 {
        u64::from(self.generation.load(Ordering::Relaxed)) << 32 | u64::from(self.index)
    }

    /// The slot of a ticket, and the generation that it is for. For the handler.
    pub(super) fn of_ticket(ticket: u64) -> Option<(&'static Self, u32)> {
        let slot = SLOTS.get(ticket as u32 as usize)?.load(Ordering::Acquire);
        // SAFETY: slots are complete before they are stored there, and never freed.
        Some((unsafe { slot.as_ref() }?, (ticket >> 32) as u32))
    }

    /// Whether nobody uses it, nor will.
    fn is_free(&self) -> bool {
        self.generation.load(Ordering::SeqCst) == 0 && self.inside.load(Ordering::SeqCst) == 0
    }

    /// Takes the slot from its thread, which is gone or whose timer is deleted.
    pub(super) fn release(&self) {
        self.generation.store(0, Ordering::SeqCst);
    }
}

/// Slots as the collector sees them. Only one collector exists at a time.
#[derive(Default)]
pub(super) struct Slots {
    made: Vec<&'static Slot>,
    last_generation: u32,
}

/// How many slots earlier collectors of this process made, and the generation they came to.
static MADE: AtomicUsize = AtomicUsize::new(0);
static LAST_GENERATION: AtomicU32 = AtomicU32::new(0);

impl Slots {
    /// Takes over from the collectors before.
    pub(super) fn new() -> Self {
        let made = SLOTS.iter().take(MADE.load(Ordering::Acquire));
        let made = made.filter_map(|slot| {
            // SAFETY: as in `of_ticket`.
            unsafe { slot.load(Ordering::Acquire).as_ref() }
        });
        Self { made: made.collect(), last_generation: LAST_GENERATION.load(Ordering::Relaxed) }
    }

    /// A slot for a thread, with nothing left from the one before; `None` if there are too many
    /// threads.
    pub(super) fn take(&mut self, ring_words: usize) -> Option<&'static Slot> {
        let fits = |slot: &&&'static Slot| slot.is_free() && slot.ring.capacity() == ring_words;
        let slot = match self.made.iter().find(fits) {
            Some(slot) => *slot,
            None => self.make(ring_words)?,
        };
        // What a stale record would be: written after the last reading.
        let mut record = Vec::new();
        let written = slot.ring.written();
        while slot.ring.take(written, &mut record) {}
        slot.stack_low.store(0, Ordering::Relaxed);
        slot.stack_high.store(0, Ordering::Relaxed);
        slot.scopes.store(ptr::null_mut(), Ordering::Relaxed);
        slot.cost.store(0, Ordering::Relaxed);
        slot.passed_over.store(0, Ordering::Relaxed);
        slot.waits.store(0, Ordering::Relaxed);
        slot.is_idle.store(false, Ordering::Relaxed);
        slot.has_begun.store(false, Ordering::Relaxed);
        self.last_generation = self.last_generation.wrapping_add(1).max(1);
        LAST_GENERATION.store(self.last_generation, Ordering::Relaxed);
        slot.generation.store(self.last_generation, Ordering::SeqCst);
        Some(slot)
    }

    fn make(&mut self, ring_words: usize) -> Option<&'static Slot> {
        let index = MADE.load(Ordering::Relaxed);
        let place = SLOTS.get(index)?;
        let slot: &'static Slot = Box::leak(Box::new(Slot::new(index as u32, ring_words)));
        place.store(ptr::from_ref(slot).cast_mut(), Ordering::Release);
        MADE.store(index + 1, Ordering::Release);
        self.made.push(slot);
        Some(slot)
    }

    /// Whether every handler that was at work at some earlier moment has left since: asked again and
    /// again with the same `left`, of which those that are seen at rest are taken out.
    pub(super) fn have_left(left: &mut Vec<&'static Slot>) -> bool {
        left.retain(|slot| slot.inside.load(Ordering::SeqCst) != 0);
        left.is_empty()
    }

    pub(super) fn all(&self) -> Vec<&'static Slot> {
        self.made.clone()
    }
}
