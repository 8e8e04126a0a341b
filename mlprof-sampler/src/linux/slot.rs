//! The memory that the signal handler of one thread works with.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use framehop::{CacheNative, MustNotAllocateDuringUnwind};

use super::ring::Ring;
use crate::lease::Lease;
use mlprof_events::open_scopes::OpenScopes;

/// So many threads can be sampled at the same time.
pub(super) const MOST_SLOTS: usize = 4096;

/// All slots that were ever made. They are never freed: a signal that was under way when its timer
/// was deleted may come at any later time, and finds its slot by its index. A slot is small; what
/// is large is its [`Work`], which lives as long as its lease.
static SLOTS: [AtomicPtr<Slot>; MOST_SLOTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_SLOTS];

pub(super) type UnwindCache = CacheNative<MustNotAllocateDuringUnwind>;

/// The large part of a slot.
pub(super) struct Work {
    pub(super) ring: Ring,
    /// The handler's.
    pub(super) cache: UnsafeCell<UnwindCache>,
}

// SAFETY: only the handler that has entered the slot uses the cell, and a thread has one handler at
// a time; all else is atomic.
unsafe impl Sync for Work {}

impl Work {
    fn new(ring_words: usize) -> Box<Self> {
        Box::new(Self {
            ring: Ring::new(ring_words),
            cache: UnsafeCell::new(UnwindCache::new_in()),
        })
    }
}

/// One thread's part of the sampler; another thread's later.
///
/// *Invariant*: the handler of the thread that has the slot uses what is not atomic, and the writing end of the ring,
/// after it has [entered](Lease::enter). The collector, which gives and ends leases, changes these only while there
/// is no lease and no handler is inside. `work` is not null from before a lease begins until the collector takes it
/// out, after the end of the lease and once no handler is inside.
#[repr(align(128))]
pub(super) struct Slot {
    pub(super) index: u32,
    pub(super) lease: Lease,
    work: AtomicPtr<Work>,
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

impl Slot {
    fn new(index: u32) -> Self {
        Self {
            index,
            lease: Lease::new(),
            work: AtomicPtr::new(ptr::null_mut()),
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
        u64::from(self.lease.generation()) << 32 | u64::from(self.index)
    }

    /// The slot of a ticket, and the generation that it is for. For the handler.
    pub(super) fn of_ticket(ticket: u64) -> Option<(&'static Self, u32)> {
        let slot = SLOTS.get(ticket as u32 as usize)?.load(Ordering::Acquire);
        // SAFETY: slots are complete before they are stored there, and never freed.
        Some((unsafe { slot.as_ref() }?, (ticket >> 32) as u32))
    }

    /// The slot's work.
    ///
    /// # Safety
    ///
    /// The caller is a handler that has entered the slot and does not leave it meanwhile, or the
    /// collector, from [`Slots::take`] until [`Slots::give_back`].
    pub(super) unsafe fn work(&self) -> &Work {
        // SAFETY: by the invariant not null, and not freed while the caller is what it promises to
        // be.
        unsafe { &*self.work.load(Ordering::Relaxed) }
    }

    /// Whether nobody uses it, nor will.
    fn is_free(&self) -> bool {
        self.work.load(Ordering::Relaxed).is_null()
    }
}

/// Slots as the collector sees them. Only one collector exists at a time.
#[derive(Default)]
pub(super) struct Slots {
    made: Vec<&'static Slot>,
    /// Work of slots that were given back, for the next threads.
    #[expect(clippy::vec_box, reason = "large, and slots have the address of one on the heap")]
    spare: Vec<Box<Work>>,
    last_generation: u32,
}

/// How many slots earlier collectors of this process made, and the generation they came to.
static MADE: AtomicUsize = AtomicUsize::new(0);
static LAST_GENERATION: AtomicU32 = AtomicU32::new(0);

/// The most spare work that is kept.
const MOST_SPARE: usize = 16;

impl Slots {
    /// Takes over from the collectors before.
    pub(super) fn new() -> Self {
        let made = SLOTS.iter().take(MADE.load(Ordering::Acquire));
        let made = made.filter_map(|slot| {
            // SAFETY: as in `of_ticket`.
            unsafe { slot.load(Ordering::Acquire).as_ref() }
        });
        Self {
            made: made.collect(),
            spare: Vec::new(),
            last_generation: LAST_GENERATION.load(Ordering::Relaxed),
        }
    }

    /// A slot for a thread, with nothing left from the one before; `None` if there are too many
    /// threads.
    pub(super) fn take(&mut self, ring_words: usize) -> Option<&'static Slot> {
        let slot = match self.made.iter().find(|slot| slot.is_free()) {
            Some(slot) => *slot,
            None => self.make()?,
        };
        let work = self.spare.pop().unwrap_or_else(|| Work::new(ring_words));
        slot.work.store(Box::into_raw(work), Ordering::Relaxed);
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
        slot.lease.begin(self.last_generation);
        Some(slot)
    }

    fn make(&mut self) -> Option<&'static Slot> {
        let index = MADE.load(Ordering::Relaxed);
        let place = SLOTS.get(index)?;
        let slot: &'static Slot = Box::leak(Box::new(Slot::new(index as u32)));
        place.store(ptr::from_ref(slot).cast_mut(), Ordering::Release);
        MADE.store(index + 1, Ordering::Release);
        self.made.push(slot);
        Some(slot)
    }

    /// Takes a slot back whose lease has ended, and in which a handler was seen at rest since. All
    /// samples were taken out of its ring.
    pub(super) fn give_back(&mut self, slot: &'static Slot) {
        let Some(work) = take_work(slot) else { return };
        if self.spare.len() < MOST_SPARE {
            self.spare.push(work);
        }
    }

    /// Whether every handler that was at work at some earlier moment has left since: asked again and
    /// again with the same `left`, of which those that are seen at rest are taken out.
    pub(super) fn have_left(left: &mut Vec<&'static Slot>) -> bool {
        left.retain(|slot| !slot.lease.is_at_rest());
        left.is_empty()
    }

    pub(super) fn all(&self) -> Vec<&'static Slot> {
        self.made.clone()
    }

    /// Frees the work that no thread has.
    pub(super) fn free_spare(&mut self) {
        self.spare = Vec::new();
    }
}

/// Takes the work out of a slot whose lease has ended, and in which no handler is.
pub(super) fn take_work(slot: &Slot) -> Option<Box<Work>> {
    debug_assert_eq!(slot.lease.generation(), 0);
    let work = slot.work.swap(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: from `Box::into_raw` in `Slots::take`. By the invariant no handler uses it, nor will
    // one: the lease has ended, and no handler is inside.
    (!work.is_null()).then(|| unsafe { Box::from_raw(work) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process may take slots, but none of these sizes.
    #[test]
    fn a_slot_is_used_again_at_any_size_of_ring_and_keeps_nothing() {
        let mut slots = Slots { made: Vec::new(), spare: Vec::new(), last_generation: 0 };
        let place: &'static Slot = Box::leak(Box::new(Slot::new(4000)));
        slots.made.push(place);
        for words in [4096, 1 << 16, 8192] {
            let slot = slots.take(words).expect("a free one");
            assert!(ptr::eq(slot, place), "{words}");
            // SAFETY: taken, and not given back.
            assert_eq!(unsafe { slot.work() }.ring.capacity(), words);
            let generation = slot.lease.generation();
            let entered = slot.lease.enter(generation);
            assert!(entered.is_some());
            drop(entered);
            slot.lease.end();
            assert!(slot.lease.enter(generation).is_none(), "a signal that comes late");
            slots.give_back(slot);
            assert!(slot.is_free());
            slots.free_spare(); // as at the end of a sampler
        }
    }
}
