//! The right of one thread's signal handler to work with memory that others have before and after
//! it.

use mlprof_events::sync::{AtomicU32, Ordering, fence};

/// Which handler may use something, and how many handlers are using it.
///
/// A signal that was queued when its timer was deleted may arrive at any later time. So a timer
/// carries the generation of the lease that it was made under, and its handler does nothing under
/// another one.
///
/// *Invariant*: one thread, the owner, begins and ends leases. A handler adds itself to `inside`, then reads
/// `generation`; the owner stores another `generation`, then reads `inside`. With a fence between the two steps on
/// both sides either the handler finds the lease ended, or the owner finds the handler inside. So after
/// [`end`](Self::end) and one [`is_at_rest`](Self::is_at_rest) the memory is the owner's alone.
pub(crate) struct Lease {
    /// 0: no lease.
    generation: AtomicU32,
    inside: AtomicU32,
}

/// A handler at work. It leaves when this is dropped.
pub(crate) struct Entered<'lease>(&'lease Lease);

impl Lease {
    pub(crate) fn new() -> Self {
        Self { generation: AtomicU32::new(0), inside: AtomicU32::new(0) }
    }

    /// The generation of the lease; 0 while there is none.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins a lease. Only the owner may call this, after the last lease has ended and all
    /// handlers have left. Handlers of this generation see all that was written before.
    pub(crate) fn begin(&self, generation: u32) {
        self.generation.store(generation, Ordering::Release);
    }

    /// Ends the lease: handlers that enter from here on are turned away.
    pub(crate) fn end(&self) {
        self.generation.store(0, Ordering::Release);
    }

    /// Enters, if the lease is of this generation. Async-signal-safe.
    pub(crate) fn enter(&self, generation: u32) -> Option<Entered<'_>> {
        self.inside.fetch_add(1, Ordering::Relaxed);
        let entered = Entered(self);
        fence(Ordering::SeqCst);
        (self.generation.load(Ordering::Acquire) == generation).then_some(entered)
    }

    /// Whether no handler is inside that entered before this was called. All that handlers wrote is
    /// then seen.
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

    /// Loom's cell panics if a handler and the owner, or two handlers, use the memory at once.
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
                // A signal of the first lease that arrives late.
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
