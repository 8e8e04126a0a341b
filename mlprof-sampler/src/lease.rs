//! Leases that give one thread's signal handler the right to use memory that is reused for other
//! threads.

use mlprof_events::sync::{AtomicU32, Ordering, fence};

/// Lease on some memory: which handler may use it, and how many handlers are using it.
///
/// A signal that was pending when its timer was deleted may arrive at any later time. So a timer
/// carries the generation of the lease under which it was created. Its handler returns at once if
/// the current lease has another generation.
///
/// *Invariant*: one thread, the owner, begins and ends leases. A handler increments `inside` and
/// then reads `generation`. The owner stores another `generation` and then reads `inside`. Both
/// sides have a sequentially consistent fence between these two steps.
///
/// So either the handler sees that the lease has ended, or the owner sees the handler inside. After
/// [`end`](Self::end) and one successful [`is_at_rest`](Self::is_at_rest) the memory belongs to the
/// owner alone.
pub(crate) struct Lease {
    /// Generation of the current lease; 0 if there is none.
    generation: AtomicU32,
    inside: AtomicU32,
}

/// Guard of a running handler, which leaves when this is dropped.
pub(crate) struct Entered<'lease>(&'lease Lease);

impl Lease {
    pub(crate) fn new() -> Self {
        Self { generation: AtomicU32::new(0), inside: AtomicU32::new(0) }
    }

    /// Returns the generation of the lease, or 0 if there is none.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins a lease. Only the owner may call this, after the previous lease has ended and all
    /// handlers have left. Handlers of this generation see everything that the owner wrote before.
    pub(crate) fn begin(&self, generation: u32) {
        self.generation.store(generation, Ordering::Release);
    }

    /// Ends the lease. Handlers that enter later are turned away.
    pub(crate) fn end(&self) {
        self.generation.store(0, Ordering::Release);
    }

    /// Enters if the lease has this generation, and returns `None` otherwise. It is
    /// async-signal-safe.
    pub(crate) fn enter(&self, generation: u32) -> Option<Entered<'_>> {
        self.inside.fetch_add(1, Ordering::Relaxed);
        let entered = Entered(self);
        fence(Ordering::SeqCst);
        (self.generation.load(Ordering::Acquire) == generation).then_some(entered)
    }

    /// Returns `true` if all handlers that entered before this call have left. The caller then sees
    /// everything that they wrote.
    pub(crate) fn is_at_rest(&self) -> bool {
        fence(Ordering::SeqCst);
        self.inside.load(Ordering::Acquire) == 0
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Slot {
        lease: Lease,
        memory: UnsafeCell<u32>,
    }

    /// Checks that a handler and the owner, or two handlers, never use the memory at the same time.
    /// Loom's cell panics if they do.
    #[test]
    fn loom_memory_is_used_by_one_side_at_a_time() {
        loom::model(|| {
            let slot = Arc::new(Slot { lease: Lease::new(), memory: UnsafeCell::new(0) });
            slot.memory.with_mut(|memory| unsafe { *memory = 1 });
            slot.lease.begin(1);
            let handler = |generation: u32| {
                let slot = slot.clone();
                thread::spawn(move || {
                    let Some(_entered) = slot.lease.enter(generation) else { return false };
                    slot.memory.with_mut(|memory| unsafe {
                        assert_eq!(*memory, generation);
                    });
                    true
                })
            };
            let first = handler(1);
            slot.lease.end();
            if slot.lease.is_at_rest() {
                slot.memory.with_mut(|memory| unsafe { *memory = 2 });
                slot.lease.begin(2);
                // This signal of the first lease arrives late.
                let late = handler(1);
                assert!(!late.join().expect("no panic"));
            }
            first.join().expect("no panic");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_handler_of_another_generation_is_turned_away_and_leaves() {
        let lease = Lease::new();
        assert!(lease.enter(1).is_none() && lease.is_at_rest());
        lease.begin(1);
        let entered = lease.enter(1).expect("its lease");
        assert!(!lease.is_at_rest());
        assert!(lease.enter(2).is_none());
        lease.end();
        assert!(lease.enter(1).is_none() && !lease.is_at_rest());
        drop(entered);
        assert!(lease.is_at_rest());
    }
}
