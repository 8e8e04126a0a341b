//! Memory that one thread's signal handler works with.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use framehop::{CacheNative, MustNotAllocateDuringUnwind};

use super::ring::Ring;
use crate::lease::Lease;
use mlprof_events::open_scopes::OpenScopes;

/// Maximum number of threads that can be sampled at the same time.
pub(super) const MOST_SLOTS: usize = 4096;

/// All slots that were ever created. They are never freed, because a signal that was pending when
/// its timer was deleted may arrive at any later time and looks up its slot by index. A slot itself
/// is small. Its [`Work`] is large and lives as long as its lease.
static SLOTS: [AtomicPtr<Slot>; MOST_SLOTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; MOST_SLOTS];

pub(super) type UnwindCache = CacheNative<MustNotAllocateDuringUnwind>;

/// The large part of a slot.
pub(super) struct Work {
    pub(super) ring: Ring,
    /// Unwinding cache, which only the handler uses.
    pub(super) cache: UnsafeCell<UnwindCache>,
}

// SAFETY: the fields of `ring` are atomic. Only a handler that has entered the slot accesses
// `cache`. Only the thread with the current lease can enter, and its handler blocks all signals. So
// there is at most one such handler.
unsafe impl Sync for Work {}

impl Work {
    fn new(ring_words: usize) -> Box<Self> {
        Box::new(Self {
            ring: Ring::new(ring_words),
            cache: UnsafeCell::new(UnwindCache::new_in()),
        })
    }
}

/// Data of one sampled thread. A slot is reused for another thread later.
///
/// *Invariant*: two sides access a slot.
///
/// - The handler of the slot's thread uses the non-atomic parts and the writing end of the ring,
///   but only after it has [entered](Lease::enter).
/// - The collector begins and ends leases. It changes the non-atomic parts only while there is no
///   lease and no handler is inside.
///
/// `work` is set before a lease begins. The collector takes it out after the lease has ended and no
/// handler is inside. In between it is not null.
#[repr(align(128))]
pub(super) struct Slot {
    pub(super) index: u32,
    pub(super) lease: Lease,
    work: AtomicPtr<Work>,
    /// Lowest address of the thread's stack; 0, like `stack_high`, until the handler has found the
    /// stack.
    pub(super) stack_low: AtomicUsize,
    pub(super) stack_high: AtomicUsize,
    /// Set if the thread may run on the process's first stack, which grows.
    pub(super) is_main: AtomicBool,
    /// Open scopes of the thread; null if it never recorded anything.
    pub(super) scopes: AtomicPtr<OpenScopes>,
    /// Value of the processor's counter when the last sample was finished. `cost` is the
    /// approximate duration of a sample in the same unit. `passed_over` is the number of ticks
    /// skipped since that sample. Only the handler writes these fields.
    pub(super) finished: AtomicU64,
    pub(super) cost: AtomicU64,
    pub(super) passed_over: AtomicU64,
    /// State of the random numbers for the times of samples. Only the handler writes it.
    pub(super) random: AtomicU64,
    /// Number of consecutive samples in which the thread waited.
    pub(super) waits: AtomicU32,
    /// Set by the handler when it stops the timer of a thread that only waits. The collector starts
    /// the timer again.
    pub(super) is_idle: AtomicBool,
    /// Processor time of the thread when it became idle, in nanoseconds.
    pub(super) idle_since: AtomicU64,
    /// Set by the collector once the timer runs.
    pub(super) has_begun: AtomicBool,
    /// Id of the timer, from `timer_create`.
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

    /// Returns the slot's index and generation, which the timer passes to the handler.
    pub(super) fn ticket(&self) -> u64 {
        u64::from(self.lease.generation()) << 32 | u64::from(self.index)
    }

    /// Returns the slot of a ticket and the ticket's generation. The handler calls it.
    pub(super) fn of_ticket(ticket: u64) -> Option<(&'static Self, u32)> {
        let slot = SLOTS.get(ticket as u32 as usize)?.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or refers to a slot that was fully initialised before the
        // release store and is never freed. The acquire load makes its initial state visible.
        Some((unsafe { slot.as_ref() }?, (ticket >> 32) as u32))
    }

    /// Returns the slot's work.
    ///
    /// # Safety
    ///
    /// The caller must be one of these:
    ///
    /// - a handler that has entered the slot and does not leave it while the reference is in use
    /// - the collector, between [`Slots::take`] and [`Slots::give_back`]
    pub(super) unsafe fn work(&self) -> &Work {
        // SAFETY: the caller is one of the two above. By the invariant `work` is then not null,
        // points to an initialised `Work`, and is not freed while the reference is in use. `Work`
        // is `Sync`.
        unsafe { &*self.work.load(Ordering::Relaxed) }
    }

    /// Returns `true` if the slot is unused and no handler will use it.
    fn is_free(&self) -> bool {
        self.work.load(Ordering::Relaxed).is_null()
    }
}

/// The slots from the collector's point of view. Only one collector exists at a time.
#[derive(Default)]
pub(super) struct Slots {
    made: Vec<&'static Slot>,
    /// Work of slots that were given back, for reuse by later threads.
    #[expect(clippy::vec_box, reason = "large, and slots have the address of one on the heap")]
    spare: Vec<Box<Work>>,
    last_generation: u32,
}

/// Number of slots created by all collectors of this process. `LAST_GENERATION` is the last
/// generation they used.
static MADE: AtomicUsize = AtomicUsize::new(0);
static LAST_GENERATION: AtomicU32 = AtomicU32::new(0);

/// Maximum number of spare works to keep.
const MOST_SPARE: usize = 16;

impl Slots {
    /// Takes over the slots of earlier collectors.
    pub(super) fn new() -> Self {
        let made = SLOTS.iter().take(MADE.load(Ordering::Acquire));
        let made = made.filter_map(|slot| {
            // SAFETY: the pointer is null, or refers to a slot that was fully initialised before
            // the release store and is never freed.
            unsafe { slot.load(Ordering::Acquire).as_ref() }
        });
        Self {
            made: made.collect(),
            spare: Vec::new(),
            last_generation: LAST_GENERATION.load(Ordering::Relaxed),
        }
    }

    /// Returns a slot for a thread, without state of its previous thread, and begins its lease.
    /// Returns `None` if there are too many threads.
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

    /// Takes back a slot. Its lease must have ended, and no handler may have been inside since
    /// then. All samples must have been taken out of its ring.
    pub(super) fn give_back(&mut self, slot: &'static Slot) {
        let Some(work) = take_work(slot) else { return };
        if self.spare.len() < MOST_SPARE {
            self.spare.push(work);
        }
    }

    /// Returns `true` when every handler that was inside at some earlier moment has left since. The
    /// caller passes the same `left` each time; slots without a handler inside are removed from it.
    pub(super) fn have_left(left: &mut Vec<&'static Slot>) -> bool {
        left.retain(|slot| !slot.lease.is_at_rest());
        left.is_empty()
    }

    pub(super) fn all(&self) -> Vec<&'static Slot> {
        self.made.clone()
    }

    /// Frees the work that is not assigned to a slot.
    pub(super) fn free_spare(&mut self) {
        self.spare = Vec::new();
    }
}

/// Takes the work out of a slot. Its lease must have ended, and no handler may be inside.
pub(super) fn take_work(slot: &Slot) -> Option<Box<Work>> {
    debug_assert_eq!(slot.lease.generation(), 0);
    let work = slot.work.swap(ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: the pointer is from `Box::into_raw` in `Slots::take`, and `swap` takes it out only
    // once. By the invariant no handler uses it: the lease has ended, no handler is inside, and
    // later ones are turned away.
    (!work.is_null()).then(|| unsafe { Box::from_raw(work) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this process may take slots, but none with these ring sizes.
    #[test]
    fn a_slot_is_used_again_at_any_size_of_ring_and_keeps_nothing() {
        let mut slots = Slots { made: Vec::new(), spare: Vec::new(), last_generation: 0 };
        let place: &'static Slot = Box::leak(Box::new(Slot::new(4000)));
        slots.made.push(place);
        for words in [4096, 1 << 16, 8192] {
            let slot = slots.take(words).expect("a free one");
            assert!(ptr::eq(slot, place), "{words}");
            // SAFETY: the slot was taken above and is not given back before the reference is
            // dropped.
            assert_eq!(unsafe { slot.work() }.ring.capacity(), words);
            let generation = slot.lease.generation();
            let entered = slot.lease.enter(generation);
            assert!(entered.is_some());
            drop(entered);
            slot.lease.end();
            assert!(slot.lease.enter(generation).is_none(), "a signal that comes late");
            slots.give_back(slot);
            assert!(slot.is_free());
            slots.free_spare(); // a sampler does this when it stops
        }
    }
}
